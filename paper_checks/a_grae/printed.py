"""The printed tables of pass@k, k = 1, 2, 4, ..., 256, in percent, and of Pass@1 (Table 3)."""

KS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def table(text: str) -> dict[str, dict[str, tuple[float, ...]]]:
    """Benchmark -> method -> figures, from lines of "method: figures" under lines with the name of a benchmark."""
    benchmarks: dict[str, dict[str, tuple[float, ...]]] = {}
    rows: dict[str, tuple[float, ...]] = {}
    for line in text.strip().splitlines():
        method, separator, figures = line.partition(": ")
        if separator:
            rows[method] = tuple(map(float, figures.split()))
        else:
            rows = benchmarks.setdefault(line, {})
    return benchmarks


TABLE_2 = table("""
MATH
Base Model: 63.4 74.8 83.2 88.6 91.2 93.4 94.1 95.0 96.3
GRPO: 76.5 82.3 86.1 88.8 90.3 92.6 93.5 93.9 95.0
GRPO-LEAD: 77.8 83.0 86.5 89.2 90.5 92.3 92.8 93.6 95.0
W-REINFORCE: 76.6 82.8 87.1 90.2 92.4 94.1 95.3 96.1 96.7
GRPO + A-GRAE: 78.3 85.0 89.2 91.0 92.5 94.6 95.0 95.5 96.5
DAPO: 75.0 79.8 85.0 88.4 89.8 92.0 92.8 93.4 94.3
DAPO + A-GRAE: 76.9 82.6 86.5 89.2 90.6 92.8 93.6 94.2 95.3
Dr.GRPO: 77.2 82.5 87.4 89.6 91.0 92.8 93.6 94.3 95.0
Dr.GRPO + A-GRAE: 78.6 86.2 89.8 90.6 92.8 95.0 95.4 96.0 96.9
AIME 2025
Base Model: 6.1 9.9 14.4 19.3 24.4 29.1 33.4 39.2 46.7
GRPO: 10.3 14.3 18.7 23.1 27.5 31.8 36.1 40.8 46.7
GRPO-LEAD: 11.0 14.8 19.2 23.4 27.8 32.0 36.5 41.4 47.3
W-REINFORCE: 10.6 15.3 20.0 24.7 29.7 34.6 40.5 47.8 56.7
GRPO + A-GRAE: 11.3 15.6 19.8 24.7 28.6 34.1 39.2 47.8 56.7
DAPO: 12.0 16.1 21.3 25.2 29.4 33.2 38.5 45.4 53.3
DAPO + A-GRAE: 13.3 18.4 23.0 26.3 30.0 35.1 41.1 48.7 60.0
Dr.GRPO: 11.0 14.8 19.3 24.3 28.8 33.0 37.1 41.2 46.7
Dr.GRPO + A-GRAE: 11.8 16.2 19.8 25.0 29.3 34.8 37.9 48.0 56.7
AMC23
Base Model: 40.6 55.3 68.6 78.6 85.0 89.4 93.4 97.3 100.0
GRPO: 60.2 66.7 72.1 76.4 80.6 84.8 88.3 90.8 92.5
GRPO-LEAD: 62.3 68.0 73.3 77.8 81.5 85.0 88.2 90.3 92.3
W-REINFORCE: 62.0 70.0 77.0 83.1 87.8 91.8 95.2 97.1 97.5
GRPO + A-GRAE: 62.6 70.0 77.5 83.7 88.2 92.0 95.1 96.8 97.5
DAPO: 62.0 70.3 77.2 83.1 87.8 91.4 94.0 96.1 97.5
DAPO + A-GRAE: 63.3 72.5 80.5 86.7 90.2 92.9 95.0 97.0 100.0
Dr.GRPO: 60.7 69.8 75.6 82.6 87.8 90.9 93.2 94.6 95.0
Dr.GRPO + A-GRAE: 62.8 71.6 78.2 84.0 89.6 92.3 95.2 95.9 100.0
""")

# B: bold, U: underlined, in the order of KS; methods without a mark are left out.
MARKS_2 = {
    "MATH": {"GRPO + A-GRAE": "BUUBUUUUU", "Dr.GRPO + A-GRAE": "BUUUBBBBB"},
    "AIME 2025": {
        "GRPO + A-GRAE": "-----BU-U",
        "DAPO": "U-UUU---U",
        "DAPO + A-GRAE": "BBBBBBBBB",
        "Dr.GRPO + A-GRAE": "-U-----UU",
    },
    "AMC23": {
        "Base Model": "-------BB",
        "GRPO + A-GRAE": "U-----U-U",
        "DAPO": "-U------U",
        "DAPO + A-GRAE": "BBBBBB-UB",
        "Dr.GRPO + A-GRAE": "--UUUUB-B",
    },
}

TABLE_4 = table("""
MATH
Base Model: 84.3 89.6 92.8 94.8 96.0 96.8 97.4 97.8 98.0
GRPO: 92.4 95.3 96.5 97.0 97.3 97.7 98.0 98.3 98.6
GRPO + A-GRAE: 92.9 95.7 96.9 97.5 97.9 98.3 98.6 99.0 99.3
DAPO: 92.6 95.3 96.4 97.2 97.5 97.8 98.0 98.2 98.6
DAPO + A-GRAE: 93.0 95.6 97.0 97.5 98.1 98.2 98.4 98.7 99.3
Dr.GRPO: 92.8 95.6 96.8 97.3 97.7 98.0 98.3 98.5 98.8
Dr.GRPO + A-GRAE: 93.3 96.0 97.3 97.8 98.3 98.6 98.8 99.0 99.4
AIME 2025
Base Model: 22.7 26.5 29.7 33.2 37.8 43.2 48.0 51.1 53.3
GRPO: 28.5 35.0 41.4 47.7 53.1 57.6 62.1 67.2 73.3
GRPO + A-GRAE: 29.6 36.0 42.6 48.9 54.0 58.3 63.0 68.3 74.3
DAPO: 29.2 35.5 42.2 48.5 53.3 57.7 62.5 67.6 73.6
DAPO + A-GRAE: 30.3 36.8 43.2 49.3 54.6 58.6 63.3 68.4 75.0
Dr.GRPO: 29.0 35.2 41.8 48.2 53.0 57.5 62.3 67.3 74.0
Dr.GRPO + A-GRAE: 29.8 36.3 43.3 49.8 55.2 58.8 63.5 68.8 74.6
AMC23
Base Model: 64.2 73.0 80.1 85.5 89.8 92.8 95.2 97.4 100.0
GRPO: 82.8 89.3 92.3 94.0 95.2 96.1 97.2 98.8 100.0
GRPO + A-GRAE: 84.2 90.6 93.5 95.4 96.6 97.7 98.0 99.3 100.0
DAPO: 83.3 89.8 92.6 94.3 95.8 96.5 97.6 99.2 100.0
DAPO + A-GRAE: 84.6 91.6 94.2 96.3 97.0 97.8 98.2 99.5 100.0
Dr.GRPO: 83.0 89.6 92.3 93.8 95.6 96.3 97.2 98.2 100.0
Dr.GRPO + A-GRAE: 84.5 91.3 93.6 96.0 97.2 98.0 98.5 99.3 100.0
""")

TABLE_5 = table("""
MATH
Base Model: 63.4 74.8 83.2 88.6 91.2 93.4 94.1 95.0 96.3
GRPO: 76.5 82.3 86.1 88.8 90.3 92.6 93.5 93.9 95.0
GRPO + A-GRAE (sample level): 77.8 84.2 88.4 90.5 92.1 94.0 94.3 94.8 96.0
GRPO + A-GRAE (group level): 77.6 84.0 88.1 91.2 93.0 94.3 95.3 95.6 97.0
GRPO + A-GRAE (full): 78.3 85.0 89.2 91.0 92.5 94.6 95.0 95.5 96.5
AIME 2025
Base Model: 6.1 9.9 14.4 19.3 24.4 29.1 33.4 39.2 46.7
GRPO: 10.3 14.3 18.7 23.1 27.5 31.8 36.1 40.8 46.7
GRPO + A-GRAE (sample level): 10.9 15.1 19.6 24.1 28.0 33.5 40.0 47.0 52.3
GRPO + A-GRAE (group level): 11.0 15.4 20.3 24.5 28.3 33.9 41.0 49.6 60.0
GRPO + A-GRAE (full): 11.3 15.6 19.8 24.7 28.6 34.1 39.2 47.8 56.7
AMC23
Base Model: 40.6 55.3 68.6 78.6 85.0 89.4 93.4 97.3 100.0
GRPO: 59.2 66.7 72.1 76.4 80.6 84.8 88.3 90.8 92.5
GRPO + A-GRAE (sample level): 62.3 70.4 76.8 83.0 86.3 90.4 93.2 94.3 95.0
GRPO + A-GRAE (group level): 61.4 69.8 77.0 82.3 87.0 90.8 94.4 97.3 100.0
GRPO + A-GRAE (full): 62.6 70.0 77.5 83.7 88.2 92.0 95.1 96.8 97.5
""")

TABLE_6 = table("""
MATH
Base Model: 63.4 74.8 83.2 88.6 91.2 93.4 94.1 95.0 96.3
GRPO: 76.5 82.3 86.1 88.8 90.3 92.6 93.5 93.9 95.0
Positive-Dominant: 75.5 80.1 83.2 85.4 88.5 90.1 91.2 92.0 93.2
Negative-Dominant: 77.2 83.8 87.6 90.4 92.8 94.1 95.2 95.8 97.0
GRPO + ASS (group level): 77.6 84.0 88.1 91.2 93.0 94.3 95.3 95.6 97.0
Easy-Focused: 77.0 82.8 86.4 89.2 91.0 92.5 93.8 94.2 95.0
Hard-Focused: 75.8 81.2 86.0 89.8 92.2 93.6 94.8 95.2 96.0
GRPO + DDAS (sample level): 77.8 84.2 88.4 90.5 92.1 94.0 94.3 94.8 96.0
AIME 2025
Base Model: 6.1 9.9 14.4 19.3 24.4 29.1 33.4 39.2 46.7
GRPO: 10.3 14.3 18.7 23.1 27.5 31.8 36.1 40.8 46.7
Positive-Dominant: 9.7 13.6 17.1 20.3 23.7 27.1 30.9 35.9 40.0
Negative-Dominant: 10.8 15.0 20.1 23.8 27.7 34.2 40.9 49.2 60.0
GRPO + ASS (group level): 11.0 15.4 20.3 24.5 28.3 33.9 41.0 49.6 60.0
Easy-Focused: 9.7 13.9 18.6 23.7 27.6 31.1 36.8 39.9 46.7
Hard-Focused: 11.8 14.6 19.4 24.5 28.0 33.0 36.9 41.4 50.3
GRPO + DDAS (sample level): 10.9 15.1 19.6 24.1 28.0 33.5 40.0 47.0 52.3
AMC23
Base Model: 40.6 55.3 68.6 78.6 85.0 89.4 93.4 97.3 100.0
GRPO: 59.2 66.7 72.1 76.4 80.6 84.8 88.3 90.8 92.5
Positive-Dominant: 59.2 66.7 72.1 76.4 80.6 84.8 88.3 90.8 92.5
Negative-Dominant: 60.9 69.5 76.6 82.1 86.5 90.6 94.1 97.3 100.0
GRPO + ASS (group level): 61.4 69.8 77.0 82.3 87.0 90.8 94.4 97.3 100.0
Easy-Focused: 61.5 68.8 72.3 76.4 79.4 82.3 88.4 91.8 95.0
Hard-Focused: 60.8 69.9 75.6 82.5 86.8 91.3 93.5 96.2 100.0
GRPO + DDAS (sample level): 62.3 70.4 76.8 83.0 86.3 90.4 93.2 94.3 95.0
""")

TABLE_3 = table("""
Geo3K, MathVision, Mathverse
Base Model: 27.8 20.8 31.6
GRPO: 43.5 23.4 35.2
GRPO + A-GRAE: 45.7 24.0 36.8
DAPO: 44.7 23.8 35.9
DAPO + A-GRAE: 45.9 24.3 37.5
Dr.GRPO: 44.9 24.2 36.5
Dr.GRPO + A-GRAE: 46.8 25.6 38.4
MRI300, CT300, Xray300
Base Model: 35.6 42.5 42.0
GRPO: 87.2 71.7 63.2
GRPO + A-GRAE: 88.2 73.1 71.3
DAPO: 84.3 71.6 63.1
DAPO + A-GRAE: 87.0 72.3 71.6
Dr.GRPO: 87.8 72.4 69.5
Dr.GRPO + A-GRAE: 89.0 73.6 72.0
""")
