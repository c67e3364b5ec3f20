"""Stand-ins that speak only the wire contract: a fleet (users, execlets, hosts) and Croesus, for demo and tests."""
