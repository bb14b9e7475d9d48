"""What is run in a checkout and is no part of a user's work: proofs, evidence."""
