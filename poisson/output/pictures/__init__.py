"""Pictures of solutions. Matplotlib is imported where something is drawn, so only by the modules in here."""
