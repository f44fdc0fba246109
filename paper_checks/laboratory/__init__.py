"""What the laboratory itself finds, beyond the papers."""
