"""What figure scripts share."""
