"""For asyncio: requests that come while the store is asked are the next batch.

    limits = weir.aio.Limits(limiter)
    decision = await limits.take("alice")

The loop never waits for the store: one thread does, with all that has come meanwhile.
"""
import asyncio
import concurrent.futures

from . import native


class Limits:
    def __init__(self, limiter):
        self.limiter = limiter
        self.waiting = []  # (future, (key, cost)), in the order they came
        self.running = False
        self.thread = concurrent.futures.ThreadPoolExecutor(1, "weir")

    async def take(self, key, cost=1):
        answer = asyncio.get_running_loop().create_future()
        self.waiting.append((answer, (key, cost)))
        if not self.running:
            self.running = True
            self.task = asyncio.create_task(self._run())
        return await answer

    async def _run(self):
        while self.waiting:
            batch = self.waiting[:native.WEIR_BATCH_MOST]
            del self.waiting[:native.WEIR_BATCH_MOST]
            wanted = [request for _, request in batch]
            decided = await asyncio.get_running_loop().run_in_executor(self.thread, self.limiter.decide, wanted)
            for (answer, _), each in zip(batch, decided):
                if answer.done():  # whoever asked was cancelled
                    continue
                if isinstance(each, Exception):
                    answer.set_exception(each)
                else:
                    answer.set_result(each)
        self.running = False

    def close(self):
        """Nobody may be waiting."""
        self.thread.shutdown()
