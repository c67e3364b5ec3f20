"""Billing, pure: clock minutes, windows, prices, credits and money (rules B and I6)."""
