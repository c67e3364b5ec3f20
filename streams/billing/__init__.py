"""What running time costs, pure: clock minutes, windows, prices and money (rules B and I6)."""
