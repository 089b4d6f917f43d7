"""Numbers held against numbers: claims of papers, independent measurements, recorded programs of the real runtime."""
