"""The web views: JSON for programs, HTML for people, right from any worker (contract, "Web views")."""
