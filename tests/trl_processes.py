"""One step of the processes that torch's launcher starts: folder, method."""

import os
import sys
from pathlib import Path

import numpy as np
import torch.distributed
from trl_cases import trainer

if __name__ == "__main__":
    folder, method = Path(sys.argv[1]), sys.argv[2]
    settings = {"num_generations": 16, "learning_rate": 0.1, "per_device_train_batch_size": 8}
    learner = trainer(folder / os.environ["RANK"], method=method, settings=settings)
    learner.train()
    if learner.accelerator.is_main_process:
        weights = learner.accelerator.unwrap_model(learner.model).named_parameters()
        arrays = {name: value.detach().numpy() for name, value in weights}
        np.savez(folder / "moved.npz", processes=learner.accelerator.num_processes, **arrays)
    # A process that ends while its group is still there can abort, and so can one that torch's own threads outlive.
    learner.accelerator.wait_for_everyone()
    torch.distributed.destroy_process_group()
    os._exit(0)
