"""Claims of the F-GRPO paper.

The stored text of this paper has no mathematics. The formulas and symbols of these claims, and numbers that stand in
formulas, are those of the project's facts file, which restores them; where a check needs something that is lost
altogether, its claim says so. Tables and text are those of the stored paper.
"""
