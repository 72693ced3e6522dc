"""Show traces and runs: the page, its server, figures and exports."""
