"""POST /v1/models/import: a model record from a configuration or a file's header."""

import asyncio

from litestar import Response

from tonnage.catalog.importing.records import import_model
from tonnage.catalog.importing.requests import ImportedModel, ImportModelRequest

from .bodies import read_json, read_query
from .call import Call
from .operations import Example, Operation, handle, json_answer
from .queries import NoQuery

EXAMPLE = {
    "id": "example-org/small-llama",
    "config": {
        "model_type": "llama",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
    },
}
IMPORT = Operation(
    id="importModel",
    method="POST",
    path="/v1/models/import",
    tag="catalog",
    summary="Make a model record from a config.json, a safetensors index or header, a GGUF header",
    description=(
        "Stores nothing: put the record into a change set to publish it. An architecture that is "
        "not known is refused with the field that makes it unknown; no model code is ever run. "
        "A GGUF header with its tokenizer can be larger than the service's body limit: leave the "
        "tokenizer out, as `tonnage catalog import-model` does."
    ),
    query=NoQuery,
    body=ImportModelRequest,
    examples=(Example("config", "A Hugging Face config.json", EXAMPLE),),
    answer=ImportedModel,
    problems=(400, 413, 415, 422),
)


@handle(IMPORT)
async def import_a_model(request: Call) -> Response[bytes]:
    read_query(request, NoQuery)
    asked = await read_json(request, ImportModelRequest)
    # Megabytes of a GGUF header take tens of milliseconds, in which others want to be answered.
    return json_answer(await asyncio.to_thread(import_model, asked))


HANDLERS = [import_a_model]
OPERATIONS = [IMPORT]
