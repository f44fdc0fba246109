"""Logs in the shapes of public trainers and evaluations: one made-up run, whose truth is known, in each of them.

Each layout is a function that gives files by name: text, or records for JSONL. The keys are those of the sources that
docs/diagnose.md names; nothing here is shared with the library.
"""

import io
import json
import random
import zipfile
from pathlib import Path

STEPS, PROMPTS, GROUP = 6, 5, 4


def run(seed=3):
    """Rollouts of a run, as objects of plain values."""
    draw = random.Random(seed)
    rates = [0.0, 0.2, 0.5, 0.8, 1.0]
    return [
        {
            "step": step, "prompt": prompt, "sample": sample, "right": (right := draw.random() < rates[prompt]),
            "answer": str(100 + prompt) if right else str(draw.randint(1, 5)), "tokens": (n := draw.randint(5, 30)),
            "cut": n > 25, "logp": -draw.random() * n,
        }
        for step in range(1, STEPS + 1) for prompt in range(PROMPTS) for sample in range(GROUP)
    ]  # fmt: skip


RUN = run()


def question(r):
    return f"How much is 100 + {r['prompt']}?"


def text(r):
    return f"I add.\nIt is \\boxed{{{r['answer']}}}."


def chat(r):
    return [{"role": "system", "content": "Add."}, {"role": "user", "content": question(r)}]


def reply(r):
    return [{"role": "assistant", "content": text(r)}]


def first_rows():
    return [r for r in RUN if r["step"] == 1]


def by(*names):
    """The rollouts by step, or by step and prompt."""
    groups = {}
    for r in RUN:
        groups.setdefault(tuple(r[name] for name in names), []).append(r)
    return groups


def verl():
    """A file a step, without ids; the score is -1 or 1, and ``acc`` beside it."""
    return {
        f"{step}.jsonl": [{"input": question(r), "output": text(r), "gts": str(100 + r["prompt"]), "score": 2.0 * r["right"] - 1,
                           "step": step, "acc": r["right"], "pred": r["answer"], "request_id": f"{i}-{step}"} for i, r in enumerate(rows)]
        for (step,), rows in by("step").items()
    }  # fmt: skip


def ms_swift():
    """A line a step, each column a list, steps as texts."""
    lines = [
        {"step": [str(step)] * len(rows), "prompt": [question(r) for r in rows], "completion": [text(r) for r in rows],
         "MathAccuracy": [float(r["right"]) for r in rows], "Format": [1.0 for r in rows], "advantages": [0.1 * r["sample"] for r in rows]}
        for (step,), rows in by("step").items()
    ]  # fmt: skip
    return {"completions.jsonl": lines}


def nemo_rl():
    """A file a step, whose name alone says which; a conversation holds prompt and completion; one value a token."""
    return {
        f"train_data_step{step}.jsonl": [
            {"content": [question(r), text(r)], "rewards": float(r["right"]), "input_lengths": 8 + r["tokens"],
             "token_ids": [7] * 8 + [9] * r["tokens"], "token_loss_mask": [0] * 8 + [1] * r["tokens"], "sample_loss_mask": 1.0,
             "advantages": [0.5] * (8 + r["tokens"]), "generation_logprobs": [0.0] * 8 + [-0.5] * r["tokens"],
             "prev_logprobs": [-9.0] * 8 + [-0.4] * r["tokens"], "idx": i} for i, r in enumerate(rows)]
        for (step,), rows in by("step").items()
    }  # fmt: skip


def nemo_gym():
    """Requests and responses of a responses API, with indices of tasks and rollouts; no steps."""
    return {"rollouts.jsonl": [
        {"responses_create_params": {"input": [{"content": question(r), "role": "user", "type": "message"}], "temperature": 1.0},
         "response": {"id": f"resp_{i}", "output": [{"id": "rs", "summary": [{"text": "hm"}], "type": "reasoning"},
                      {"id": "m", "role": "assistant", "type": "message", "content": [{"type": "output_text", "text": text(r)}]}],
                      "usage": {"input_tokens": 9, "output_tokens": r["tokens"]}},
         "reward": float(r["right"]), "_ng_task_index": r["prompt"], "_ng_rollout_index": r["sample"], "agent_ref": {"name": "add"}}
        for i, r in enumerate(first_rows())]}  # fmt: skip


def verifiers():
    """``results.jsonl`` of an evaluation: chat prompts, metrics as columns of their own."""
    return {"results.jsonl": [
        {"id": r["prompt"], "prompt": chat(r), "completion": reply(r), "task": "default", "generation_ms": 12.5, "scoring_ms": 0.1,
         "total_ms": 13.0, "info": {"level": 2}, "answer": str(100 + r["prompt"]), "reward": float(r["right"]),
         "correct_answer_reward_func": float(r["right"]), "format_reward_func": 1.0} for r in first_rows()]}  # fmt: skip


def areal():
    """Folders of versions, a file a task."""
    return {f"rollout/{step}/{9 * step + prompt}.jsonl": [
        {"task_id": 9 * step + prompt, "sample_idx": r["sample"], "seqlen": 9 + r["tokens"], "prompt_len": 9, "head_version": step,
         "tail_version": step, "reward": float(r["right"]), "prompt": question(r), "completion": text(r)} for r in rows]
        for (step, prompt), rows in by("step", "prompt").items()}  # fmt: skip


def tinker():
    """Summaries of trajectories: no texts; turns with rewards of their own."""
    return {"rollouts.jsonl": [
        {"schema_version": 1, "split": "train", "iteration": r["step"], "group_idx": r["prompt"], "traj_idx": r["sample"], "tags": ["add"],
         "sampling_client_step": None, "total_reward": float(r["right"]), "final_reward": 0.0, "trajectory_metrics": {"correct": float(r["right"])},
         "final_ob_len": 40, "steps": [{"step_idx": 0, "ob_len": 9, "ac_len": 3, "reward": 0.0, "episode_done": False, "metrics": {}},
                   {"step_idx": 1, "ob_len": 12, "ac_len": 4, "reward": float(r["right"]), "episode_done": True, "metrics": {"correct": 1}}]}
        for r in RUN]}  # fmt: skip


def open_instruct():
    """Token ids of prompts and responses; prompts are numbered within a step."""
    return {"run_rollouts_000000.jsonl": [
        {"step": r["step"], "sample_idx": i % (PROMPTS * GROUP), "prompt_idx": r["prompt"], "prompt_tokens": [1, 2, 3 + r["prompt"]],
         "response_tokens": [5] * r["tokens"], "reward": 10.0 * r["right"], "advantage": 0.0, "finish_reason": "length" if r["cut"] else "stop",
         "dataset": "add", "ground_truth": [7, 8], "request_info": {"num_calls": 0, "timeouts": 0}, "logprobs": [-0.1] * r["tokens"]}
        for i, r in enumerate(RUN)]}  # fmt: skip


def skyrl():
    """Evaluation dumps: a reward for each token."""
    return {"add.jsonl": [
        {"input_prompt": question(r), "output_response": text(r), "score": [0.0] * (r["tokens"] - 1) + [float(r["right"])],
         "stop_reason": "length" if r["cut"] else "stop", "env_class": "add", "env_extras": {"reward_spec": {"ground_truth": "1"}},
         "data_source": "add"} for r in first_rows()],
        "aggregated_results.jsonl": [{"eval/add/avg_score": 0.5, "eval/add/pass_at_1": 0.5}]}  # fmt: skip


def atropos():
    """A line a group: lists of token ids, scores and conversations."""
    return {"groups.jsonl": [
        {"tokens": [[1, 2, 5] for r in rows], "masks": [[-100, -100, 5] for r in rows], "scores": [2.0 * r["right"] - 1 for r in rows],
         "advantages": None, "messages": [chat(r) + reply(r) for r in rows], "overrides": None, "group_overrides": {}}
        for rows in by("step", "prompt").values()]}  # fmt: skip


def lm_eval():
    """Samples of a task, each twice: once a filter of answers."""
    rows = [r for r in RUN if r["step"] == 1 and r["sample"] == 0]
    return {"samples_add_2026-08-21T10-00-00.jsonl": [
        {"doc_id": r["prompt"], "doc": {"question": question(r), "answer": "100"}, "target": "100",
         "arguments": [[question(r), {"until": ["\n"]}]], "resps": [[text(r)]], "filtered_resps": [r["answer"]], "filter": kind,
         "metrics": ["exact_match"], "doc_hash": f"d{r['prompt']}", "prompt_hash": "p", "target_hash": "t",
         "exact_match": float(r["right"])} for kind in ("strict-match", "flexible-extract") for r in rows]}  # fmt: skip


def human_eval():
    """Results of a code benchmark with several samples a task."""
    return {"samples.jsonl_results.jsonl": [
        {"task_id": f"HumanEval/{r['prompt']}", "completion": text(r), "result": "passed" if r["right"] else "failed: AssertionError",
         "passed": r["right"]} for r in first_rows()]}  # fmt: skip


def evalplus():
    """One object: a list of results by task."""
    tasks = {}
    for r in first_rows():
        tasks.setdefault(f"HumanEval/{r['prompt']}", []).append(
            {"task_id": f"HumanEval/{r['prompt']}", "solution": text(r), "base_status": "pass",
             "plus_status": "pass" if r["right"] else "fail", "base_fail_tests": [], "plus_fail_tests": []})  # fmt: skip
    return {"eval_results.json": json.dumps({"date": "2026-01-01", "hash": "x", "eval": tasks})}


def matrices():
    """A line a step: rewards of prompts x rollouts beside a list of prompts."""
    return {"steps.jsonl": [
        {"global_step": step, "prompts": [question(group[0]) for group in groups], "rewards": [[float(r["right"]) for r in group] for group in groups],
         "responses": [[text(r) for r in group] for group in groups], "lengths": [[r["tokens"] for r in group] for group in groups]}
        for step, groups in ((step, [rows[i : i + GROUP] for i in range(0, len(rows), GROUP)]) for (step,), rows in by("step").items())]}  # fmt: skip


def flat_lists():
    """A line a step: a prompt each, and flat lists of all its rollouts."""
    return {"steps.jsonl": [
        {"iteration": step, "questions": [question(r) for r in rows if r["sample"] == 0], "completions": [text(r) for r in rows],
         "scores": [int(r["right"]) for r in rows]} for (step,), rows in by("step").items()]}  # fmt: skip


def twice_nested():
    """One object of steps of groups of rollouts, with a reward that is an object."""
    steps = [
        {"step": step, "groups": [{"prompt": {"messages": chat(rows[0])}, "rollouts": [
            {"response": {"text": text(r)}, "reward": {"total": r["right"] + 0.5, "correct": r["right"], "format": 0.5}} for r in rows]}
            for (at, _), rows in by("step", "prompt").items() if at == step]}
        for (step,) in by("step")
    ]  # fmt: skip
    return {"log.json": json.dumps({"run": "x", "steps": steps}, indent=2)}


def two_rewards():
    """A column of rewards for each kind of task, empty for the other."""
    return {"log.jsonl": [
        {"prompt": question(r), "step": r["step"], "completion": text(r), "math_reward": float(r["right"]) if r["prompt"] % 2 else None,
         "code_reward": None if r["prompt"] % 2 else float(r["right"])} for r in RUN]}  # fmt: skip


def twins():
    """One prompt in two groups of a step, told apart by their ids alone."""
    return {"log.jsonl": [
        {"uid": f"{r['step']}-{r['prompt']}", "prompt": "The same for all?", "step": r["step"], "response": text(r), "reward": str(int(r["right"]))}
        for r in RUN]}  # fmt: skip


def restarted():
    """A run that fell over after step 5, and took up again at step 4."""
    rows = [r for r in RUN if r["step"] <= 5] + [r for r in RUN if r["step"] >= 4]
    return {"log.jsonl": [
        {"prompt": question(r), "global_step": r["step"], "completion": text(r), "reward": int(r["right"])} for r in rows]}  # fmt: skip


def choices():
    """Requests and responses of a chat API with several choices, which are scored."""
    return {"out.jsonl": [
        {"custom_id": f"{step}-{prompt}", "step": step, "request": {"messages": [{"role": "user", "content": question(rows[0])}], "n": GROUP},
         "response": {"id": "x", "choices": [{"index": r["sample"], "message": {"role": "assistant", "content": text(r)},
                      "finish_reason": "length" if r["cut"] else "stop", "score": float(r["right"])} for r in rows]}}
        for (step, prompt), rows in by("step", "prompt").items()]}  # fmt: skip


def means_above():
    """A prompt's mean score above the scores of its samples."""
    return {"out.jsonl": [
        {"problem": question(rows[0]), "step": step, "score": 0.5, "samples": [{"output": text(r), "score": float(r["right"])} for r in rows]}
        for (step, _), rows in by("step", "prompt").items()]}  # fmt: skip


def foreign_names():
    """Names that nobody knows: found by what the columns hold."""
    return {
        "log.jsonl": [{"frage": question(r), "antwort": text(r), "punkte": float(r["right"])} for r in first_rows()]
    }


def weighted():
    """Rewards that are graded, and a word that says which rollouts are correct."""
    return {"log.tsv": "\n".join(["iter\tquery_id\tscore\tverdict"] + [
        f"{r['step']}\t{r['prompt']}\t{r['right'] * 0.9 + 0.05 * (r['sample'] % 2)}\t{'Correct' if r['right'] else 'Wrong'}" for r in RUN])}  # fmt: skip


def workers():
    """The rollouts of each step spread over the files of two workers."""
    return {f"rank_{rank}.jsonl": [
        {"prompt": question(r), "step": r["step"], "completion": text(r), "reward": float(r["right"])} for r in RUN if r["sample"] % 2 == rank]
        for rank in (0, 1)}  # fmt: skip


def rllm():
    """A file an episode, in a folder a step, and a summary that holds no rollouts."""
    files = {
        f"train_step_{r['step']}_epoch_0/episode_hash{r['prompt']}_id{r['prompt']}_{r['sample']}.json": json.dumps(
            {"training_step": r["step"], "epoch": 0, "episode_id": f"{r['prompt']}:{r['sample']}", "task": {"question": question(r)},
             "is_correct": r["right"], "termination_reason": "env_done", "metrics": {"acc": float(r["right"])}, "trajectories": [
                 {"name": "agent", "uid": f"{r['step']}-{r['prompt']}-{r['sample']}", "reward": float(r["right"]), "steps": [
                     {"observation": question(r), "action": text(r), "reward": float(r["right"]), "chat_completions": chat(r) + reply(r)}]}]}, indent=2)
        for r in RUN}  # fmt: skip
    return files | {"train_step_1_epoch_0/batch_summary.json": json.dumps({"training_step": 1, "num_episodes": 9})}


def bigcode():
    """One object of pairs by task: the number of a completion, and its verdict."""
    tasks = {}
    for r in first_rows():
        verdict = {"task_id": r["prompt"], "passed": r["right"], "result": "passed" if r["right"] else "failed: ", "completion_id": r["sample"]}  # fmt: skip
        tasks.setdefault(str(r["prompt"]), []).append([r["sample"], verdict])
    return {"results.json": json.dumps(tasks)}


def inspect_sample(r):
    return {"id": r["prompt"] + 1, "epoch": r["sample"] + 1, "input": question(r), "target": "100", "messages": chat(r) + reply(r),
            "output": {"choices": [{"message": reply(r)[0], "stop_reason": "max_tokens" if r["cut"] else "stop"}], "completion": text(r)},
            "scores": {"match": {"value": "C" if r["right"] else "I", "answer": r["answer"]}}, "events": [{"score": {"value": "C"}}] * 2}  # fmt: skip


def inspect():
    """One object: a task, a status of the whole, and samples, whose epochs are the rollouts of one prompt."""
    head = {"version": 2, "status": "success", "eval": {"task": "add"}, "results": {"scores": [{"name": "match", "value": 0.5}]}}  # fmt: skip
    return {"log.json": json.dumps(head | {"samples": [inspect_sample(r) for r in first_rows()]})}


def inspect_archive():
    """The same as an archive, whose summaries repeat the samples."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("header.json", json.dumps({"version": 2, "status": "success"}))
        for r in first_rows():
            archive.writestr(f"samples/{r['prompt'] + 1}_epoch_{r['sample'] + 1}.json", json.dumps(inspect_sample(r)))
        archive.writestr("summaries.json", json.dumps([{"id": r["prompt"], "scores": {"match": {"value": "C"}}} for r in first_rows()]))  # fmt: skip
    return {"log.eval": packed.getvalue()}


def simple_evals():
    """One object with a mean above, and conversations under a name of its own."""
    results = [{"score": float(r["right"]), "metrics": {"chars": 9}, "convo": chat(r) + reply(r)} for r in first_rows()]
    return {"math.json": json.dumps({"score": 0.5, "metrics": {"acc": 0.5}, "results": results})}


def slime():
    """Samples as objects, a file a rollout; ids of groups go on from file to file, and the status says what was cut."""
    return {f"rollout_{step}.jsonl": [
        {"group_index": step * PROMPTS + r["prompt"], "index": i, "prompt": chat(r), "response": text(r), "response_length": r["tokens"], "label": "1",
         "reward": {"score": 2.0 * r["right"] - 1, "acc": r["right"]}, "status": "truncated" if r["cut"] else "completed", "weight_versions": ["3"]}
        for i, r in enumerate(rows)] for (step,), rows in by("step").items()}  # fmt: skip


def numbered_columns():
    """A row of numbered columns, as verl's table of validation in Weights & Biases has them."""
    cells = [(f"{name}_{i}", cell) for i, r in enumerate(first_rows(), 1)
             for name, cell in (("input", question(r)), ("output", text(r)), ("score", float(r["right"])))]  # fmt: skip
    names, values = zip(*cells, strict=True)
    return {"generations.table.json": json.dumps({"columns": names, "data": [values]})}


def by_step_and_id():
    """Objects by step, in them objects by prompt."""
    steps = {}
    for (step, prompt), rows in by("step", "prompt").items():
        steps.setdefault(f"step_{step}", {})[f"p{prompt}"] = [{"completion": text(r), "reward": float(r["right"])} for r in rows]  # fmt: skip
    return {"log.json": json.dumps(steps)}


def verdicts_by_id():
    """Nothing but verdicts, by prompt."""
    tasks = {}
    for r in first_rows():
        tasks.setdefault(f"task_{r['prompt']}", []).append(r["right"])
    return {"log.json": json.dumps(tasks)}


def counts():
    """Numbers of samples, and of right ones among them."""
    return {"log.csv": "problem,iter,n,c\n" + "".join(
        f"p{prompt},{step},{len(rows)},{sum(r['right'] for r in rows)}\n" for (step, prompt), rows in by("step", "prompt").items())}  # fmt: skip


def rows_by_number():
    """A table by columns, then by the numbers of its rows, some of which were dropped."""
    columns = {"step": "step", "prompt": "prompt", "right": "reward"}
    return {"log.json": json.dumps({name: {str(2 * i + 1): float(r[key]) for i, r in enumerate(RUN)} for key, name in columns.items()})}  # fmt: skip


def pretty():
    """Objects over several lines, one after another, the last of them cut off."""
    rows = [{"prompt": question(r), "global_step": r["step"], "messages": chat(r)[:1], "response": text(r), "total_reward": r["right"] + 0.5,
             "rewards": {"correctness": float(r["right"]), "format": 0.5}} for r in RUN]  # fmt: skip
    return {"log.json": "\n".join(json.dumps(row, indent=2) for row in rows) + '\n{"prompt": "cut'}


def cut_list():
    """A list that was cut off."""
    rows = [{"prompt": question(r), "step": r["step"], "solution": "by heart", "completion": text(r), "reward": float(r["right"])} for r in RUN]  # fmt: skip
    return {"log.json": json.dumps([*rows, rows[0]])[:-9]}


def components():
    """Parts of a reward under names with slashes; one of them alone says right or wrong, and a request always succeeds."""
    return {"log.jsonl": [
        {"trainer/global_step": r["step"], "instance": {"input": {"text": question(r)}, "id": r["prompt"]}, "request": {"success": True},
         "result": {"text": text(r)}, "reward/math": float(r["right"]), "reward/overlong": -0.1 * r["cut"], "reward/format": 1.0} for r in RUN]}  # fmt: skip


def results_by_id():
    """Results by task below a mean, whose verdict is a word."""
    tasks = {}
    for r in first_rows():
        tasks.setdefault(f"Mbpp/{r['prompt']}", []).append({"solution": text(r), "status": "pass" if r["right"] else "fail"})  # fmt: skip
    return {"r.json": json.dumps({"pass@1": 0.4, "results": tasks})}


LAYOUTS = {
    function.__name__: function
    for function in (
        verl, ms_swift, nemo_rl, nemo_gym, verifiers, areal, tinker, open_instruct, skyrl, atropos, lm_eval, human_eval, evalplus,
        matrices, flat_lists, twice_nested, two_rewards, twins, restarted,
        choices, means_above, foreign_names, weighted, workers,
        rllm, bigcode, inspect, inspect_archive, simple_evals, slime, numbered_columns, by_step_and_id, verdicts_by_id,
        counts, rows_by_number, pretty, cut_list, components, results_by_id,
    )
}  # fmt: skip


OF_ONE_STEP = ("nemo_gym", "verifiers", "skyrl", "human_eval", "evalplus", "lm_eval", "foreign_names", "bigcode", "inspect",
               "inspect_archive", "simple_evals", "numbered_columns", "verdicts_by_id", "results_by_id")  # fmt: skip


def truth(name):
    """By step: the sorted numbers of correct rollouts of its groups."""
    rows = RUN
    if name in OF_ONE_STEP:
        rows = [{**r, "step": 0} for r in RUN if r["step"] == 1 and (name != "lm_eval" or r["sample"] == 0)]
    groups = {}
    for r in rows:
        key = 0 if name == "atropos" else r["step"]
        of = (r["step"], r["prompt"])
        groups.setdefault(key, {}).setdefault(of, []).append(r["right"])
    return {key: sorted((len(group), sum(group)) for group in by_prompt.values()) for key, by_prompt in groups.items()}


def write(name, folder):
    """Write the files of a layout into a folder, and return it."""
    for file, content in LAYOUTS[name]().items():
        path = Path(folder) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(record) + "\n" for record in content) if isinstance(content, list) else content
        path.write_bytes(lines if isinstance(lines, bytes) else lines.encode())
    return Path(folder)
