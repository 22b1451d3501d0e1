"""Output of AMD's rocprofv3: CSV tables and rocpd databases."""
