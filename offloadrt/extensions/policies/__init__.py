"""Policies that a user chooses by name in place of those of the real drivers and runtimes.

first_in_first_out, at_random  which block of managed memory is evicted (`evict.policy`: fifo, random)
big_page                       which pages are fetched together with a faulted one (`prefetch.policy`)
malloc                         device memory as LLVM's host plugin allocates it (`--allocator malloc`)
keep_mapped                    a memory configuration that keeps mapped data on the device
"""
