"""Global variables on the device: their own there, the host's, or a reference that is mapped."""

from __future__ import annotations

import pytest
from openmp_rig import MakeRig, scale

from offloadrt import openmp as omp
from offloadrt.trace import events


class TestDeclareTarget:
    def test_a_global_lives_on_the_device(self, rig: MakeRig) -> None:
        made = rig()
        g = made.program.declare_target("g", 4, fill=1.0)

        async def body(t: omp.HostThread) -> None:
            await t.target(scale, g, 2.0)
            assert g[0] == 1.0
            await t.target_update(omp.from_(g))
            assert g[0] == 0.0, "the device image starts at zero"
            g[:] = 5.0
            await t.target_update(omp.to(g))
            await t.target(scale, g, 2.0)
            await t.target_update(omp.from_(g))
            assert g[0] == 10.0

        made.alone(body)

    def test_a_global_after_one_of_no_bytes_lives_there_too(self, rig: MakeRig) -> None:
        made = rig()
        nothing, g = made.program.declare_target("nothing", 0), made.program.declare_target("g", 4, fill=1.0)
        assert nothing.address != g.address

        async def body(t: omp.HostThread) -> None:
            await t.target_update(omp.to(g))
            await t.target(scale, g, 2.0)
            await t.target_update(omp.from_(g))
            assert g[0] == 2.0

        made.alone(body)

    def test_under_usm_the_device_uses_the_hosts(self, rig: MakeRig) -> None:
        made = rig(configuration="usm", machine_name="mi300a")
        g = made.program.declare_target("g", 4, fill=1.0)

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 4, fill=3.0)
            await t.target(scale, g, 2.0)
            await t.target(scale, a, 2.0, maps=[omp.map(tofrom=a)])
            assert (g[0], a[0]) == (2.0, 6.0)
            assert not await t.omp_target_is_present(a)
            assert await t.omp_target_is_accessible(a, 32)

        made.alone(body)
        inserted = [event.array for event in made.trace.events if isinstance(event, events.MapInsert)]
        assert inserted == ["g_decl_tgt_ref_ptr"], "the image has a pointer to the host's global"

    @pytest.mark.parametrize("declare", ["declare_target", "declare_target_link"])
    def test_close_gives_the_kernel_a_block_of_the_device(self, rig: MakeRig, declare: str) -> None:
        made = rig(configuration="usm", machine_name="mi300a")
        g = getattr(made.program, declare)("g", 8, fill=1.0)

        async def body(t: omp.HostThread) -> None:
            await t.target(scale, g, 11.0)
            assert g[1] == 11.0
            await t.target(scale, g, 2.0, maps=omp.map(tofrom=g, close=True))
            assert g[1] == 22.0, "clang-22 -fopenmp-force-usm: the device's block is what the kernel writes"

        made.alone(body)

    @pytest.mark.parametrize("configuration", ["implicit_zero_copy", "eager_maps"])
    def test_where_the_device_uses_host_memory_the_image_starts_as_the_host(
        self, rig: MakeRig, configuration: str
    ) -> None:
        made = rig(configuration=configuration, machine_name="mi300a")
        g = made.program.declare_target("g", 4, fill=1.0)
        k = made.program.declare_target_link("k", 4, fill=3.0)

        async def body(t: omp.HostThread) -> None:
            await t.target(scale, g, 2.0)
            await t.target(scale, k, 2.0, maps=omp.map(tofrom=k))
            assert (g[0], k[0]) == (1.0, 6.0)
            await t.target_update(omp.from_(g))
            assert g[0] == 2.0

        made.alone(body)

    def test_a_linked_one_only_while_mapped(self, rig: MakeRig) -> None:
        made = rig()
        k = made.program.declare_target_link("k", 4, fill=2.0)

        async def body(t: omp.HostThread) -> None:
            await t.target(scale, k, 2.0, maps=[omp.map(tofrom=k)])
            assert k[0] == 4.0

        made.alone(body)
        assert any(isinstance(event, events.Attach) for event in made.trace.events)
