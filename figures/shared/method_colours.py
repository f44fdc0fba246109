"""The colour of each method that several figures draw: the same in all of them."""

METHOD_COLOURS = {
    "grpo": "C0",
    "f_grpo": "C1",
    "reinforce": "C2",
    "maxrl": "C3",
    "easy_power": "C4",
    "nsr": "C5",
    "dr_grpo": "0.25",
}
