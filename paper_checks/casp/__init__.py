"""Claims of the CaSP paper."""
