"""Named tensors and text in one file, in the safetensors format: nothing in it can run.

    length of the header, 8 bytes, little-endian ─ the header, JSON ─ all elements, end to end

https://huggingface.co/docs/safetensors describes it. Written here rather than by the library so
that a checkpoint goes straight from the tensors into a file that is then synced, without a copy of
all of it in memory, and so that training needs torch and nothing else.

The text has a CRC-32 of the header, with zeros in its place, and of all elements after it: tensors
that come back other than they were written would be taken for weights.
"""

import json
import math
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

METADATA = "__metadata__"
CHECKSUM = "slackwater.crc32"
NO_CHECKSUM = "0" * 8
TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}
NAMES = {kind: name for name, kind in TYPES.items()}


class DamagedError(ValueError):
    """What is read is not what was written."""


def write_tensors(
    file: BinaryIO, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]
) -> None:
    """Write tensors, wherever they live, and text; raises `TypeError` for a type it has not.

    `file` is empty and can be sought in: the checksum is known last.
    """
    header: dict[str, Any] = {METADATA: {CHECKSUM: NO_CHECKSUM, **metadata}}
    start = 0
    for name, tensor in tensors.items():
        if tensor.dtype not in NAMES or tensor.layout is not torch.strided:
            msg = f"{name} is {tensor.dtype}, {tensor.layout}: a checkpoint cannot hold it"
            raise TypeError(msg)
        end = start + tensor.numel() * tensor.element_size()
        shape = list(tensor.shape)
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)))
    file.write(text)
    checksum = zlib.crc32(text)
    for tensor in tensors.values():
        raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
        checksum = zlib.crc32(raw, checksum)
        file.write(raw)
    file.seek(8 + text.index(NO_CHECKSUM.encode()))
    file.write(f"{checksum:08x}".encode())


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors, on the CPU, and the text of a file.

    Raises `OSError` when it cannot be read, `DamagedError` when its checksum is not that of what
    is in it, and `ValueError` when it is not such a file or is cut. Files of other writers have no
    checksum; of these the text has none either.
    """
    with path.open("rb") as file:
        size = path.stat().st_size
        length = struct.unpack("<Q", _exactly(file, 8))[0]
        if length > size:
            msg = "its header is longer than the file"
            raise ValueError(msg)
        text = _exactly(file, length)
        metadata, entries = _header(text)
        told = metadata.get(CHECKSUM)
        checksum = zlib.crc32(text.replace(str(told).encode(), NO_CHECKSUM.encode(), 1))
        found: dict[str, torch.Tensor] = {}
        # Elements lie in the order of their offsets, without holes.
        for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
            raw = _elements(file, entry)
            checksum = zlib.crc32(raw, checksum)
            found[name] = _tensor(raw, entry)
    if told is not None and told != f"{checksum:08x}":
        msg = f"its content has the checksum {checksum:08x}, and {told} when it was written"
        raise DamagedError(msg)
    return {name: found[name] for name in entries}, metadata


def _header(text: bytes) -> tuple[dict[str, str], dict[str, Any]]:
    """The text and the entry of each tensor."""
    header = json.loads(text)
    if not isinstance(header, dict):
        msg = "its header is no JSON object"
        raise ValueError(msg)  # noqa: TRY004 - the file is wrong, not the caller
    metadata = header.pop(METADATA, {})
    if not all(isinstance(part, dict) for part in (metadata, *header.values())):
        msg = "its header has parts that are no JSON objects"
        raise ValueError(msg)
    return metadata, header


def _elements(file: BinaryIO, entry: Mapping[str, Any]) -> bytearray:
    kind, shape = TYPES.get(entry["dtype"]), entry["shape"]
    start, end = entry["data_offsets"]
    if kind is None:
        msg = f"elements of type {entry['dtype']} are unknown"
        raise ValueError(msg)
    if end - start != math.prod(shape) * kind.itemsize or any(size < 0 for size in shape):
        msg = f"{end - start} bytes are not a {entry['dtype']} tensor of shape {shape}"
        raise ValueError(msg)
    return bytearray(_exactly(file, end - start))


def _tensor(raw: bytearray, entry: Mapping[str, Any]) -> torch.Tensor:
    kind, shape = TYPES[entry["dtype"]], entry["shape"]
    if not raw:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(raw, dtype=torch.uint8).view(kind).view(shape)


def _exactly(file: BinaryIO, size: int) -> bytes:
    found = file.read(size)
    if len(found) < size:
        msg = f"it ends {size - len(found)} bytes too early"
        raise ValueError(msg)
    return found
