"""Code that figure scripts share."""
