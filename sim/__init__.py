"""Stand-ins for a fleet (users, execlets, hosts) and Croesus, for demo and tests. They use only the wire contract."""
