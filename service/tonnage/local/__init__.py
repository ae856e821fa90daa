"""What lets Tonnage run on one machine with nothing installed: its own PostgreSQL server."""
