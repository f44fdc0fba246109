"""The laboratory's own findings, beyond the papers."""
