"""What people see: reports, replay pages, charts, the web pages. Needs no torch."""
