"""Every parameter, declared once, and how it arrives and travels."""
