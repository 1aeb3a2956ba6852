"""A small server that speaks as an OpenAI endpoint does, on loopback, and can be made to fail."""

import asyncio
import contextlib
import json

from aiohttp import web

MODEL = "tiny"


class OpenAIServer:
    """Streams `max_tokens` tokens; each test sets what it does otherwise.

    Attributes:
        slots: requests served at once.
        step_s: time from one token to the next.
        tokens_before: what happens after so many tokens: "cut", "stall" or "error".
        fault: what then happens; None: all goes well.
        refuse: HTTP status of every answer.
        gate: awaited before the first token of each request.
        bodies: what was asked.
        left: set when a client has gone before the end of its answer.
    """

    def __init__(self, *, slots=1000, step_s=0.0, fault=None, tokens_before=2, refuse=None):
        self.slots = asyncio.Semaphore(slots)
        self.step_s, self.fault, self.tokens_before = step_s, fault, tokens_before
        self.refuse, self.gate, self.bodies = refuse, None, []
        self.arrived, self.left = asyncio.Condition(), asyncio.Event()
        self.close_after_first = False
        self.usage = True
        self.step = None

    @contextlib.asynccontextmanager
    async def serving(self):
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_post("/v1/chat/completions", self._complete)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        self.site = web.TCPSite(runner, "127.0.0.1", 0)
        await self.site.start()
        self.url = "http://{}:{}".format(*runner.addresses[0][:2])
        try:
            yield self
        finally:
            await runner.cleanup()

    async def until_arrived(self, count):
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.bodies) >= count)

    async def _models(self, _request):
        if self.refuse:
            return web.Response(status=self.refuse, text="no models today")
        return web.json_response({"object": "list", "data": [{"id": MODEL}]})

    async def _complete(self, request):
        async with self.arrived:
            self.bodies.append(await request.json())
            self.arrived.notify_all()
        if self.refuse:
            return web.json_response({"error": {"message": "out of order"}}, status=self.refuse)
        try:
            async with self.slots:
                return await self._answer(request, self.bodies[-1])
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise

    async def _answer(self, request, body):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        if self.close_after_first:
            await self.site.stop()
            response.force_close()
        await response.prepare(request)
        if self.gate is not None:
            await self.gate.wait()
        chat = "messages" in body
        if chat:
            await _say(response, choices=[{"delta": {"role": "assistant", "content": ""}}])
        for i in range(body["max_tokens"]):
            if self.fault and i == self.tokens_before:
                return await self._fail(request, response)
            await self._pace()
            last = i + 1 == body["max_tokens"]
            said = {"delta": {"content": "w"}} if chat else {"text": ""}
            await _say(
                response,
                id="cmpl-1",
                choices=[said | {"finish_reason": "length" if last else None}],
            )
        if self.usage:
            counts = {"prompt_tokens": 7, "completion_tokens": body["max_tokens"]}
            await _say(response, choices=[], usage=counts)
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _pace(self):
        if self.step is not None:
            await self.step.acquire()
        await asyncio.sleep(self.step_s)

    async def _fail(self, request, response):
        if self.fault == "stall":
            await asyncio.Event().wait()
        if self.fault == "error":
            await _say(response, error={"message": "engine died", "code": 500})
            await response.write(b"data: [DONE]\n\n")
            return response
        request.transport.abort()
        return response


async def _say(response, **fields):
    await response.write(b"data: " + json.dumps(fields).encode() + b"\n\n")
