"""The explorer, ``simlab explore``: a page of panels, and the small server that answers and simulates for them."""
