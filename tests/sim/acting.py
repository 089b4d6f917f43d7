"""Several actors at once, for the tests of this folder."""


def run_all(sim, *bodies):
    async def main():
        for i, body in enumerate(bodies):
            sim.spawn(body, name=f"host {i}")

    sim.run(main)
