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
    one = trainer(folder / os.environ["RANK"], method=method, settings=settings)
    one.train()
    if one.accelerator.is_main_process:
        weights = one.accelerator.unwrap_model(one.model).named_parameters()
        arrays = {name: value.detach().numpy() for name, value in weights}
        np.savez(folder / "moved.npz", processes=one.accelerator.num_processes, **arrays)
    # A process that ends while its group is still there can abort, and so can one that torch's own threads outlive.
    one.accelerator.wait_for_everyone()
    torch.distributed.destroy_process_group()
    os._exit(0)
