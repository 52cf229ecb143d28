"""Description of a search's data set as Croissant 1.1 (JSON-LD), for use elsewhere.

Pool, validation and test set are one file and one record set each. Its licence is that of the source data, which no one
told us; who passes the data on fills it in.
"""

from __future__ import annotations

import pyarrow as pa

from ease_lib.artifacts.contracts import EXEMPLAR_POOL, TEST_SET, VALIDATION_SET
from ease_lib.lineage.chain import Chain
from ease_lib.lineage.record import Record, resource_uri

FILE = "croissant.json"
VERSION = "http://mlcommons.org/croissant/1.1"
STAGE = "build_dataset"
PARTS = {"pool": EXEMPLAR_POOL, "validation": VALIDATION_SET, "test": TEST_SET}
PARQUET = "application/x-parquet"
"""Media type of Parquet as Croissant's own loader knows it."""
_TERMS = (
    "annotation arrayShape citeAs column containedIn equivalentProperty excludes extract field fileObject fileProperty "
    "fileSet format includes isArray isLiveDataset jsonPath key md5 parentField path readLines recordSet references "
    "regex repeated replace samplingRate sdVersion separator source subField transform unArchive value"
)
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "prov": "http://www.w3.org/ns/prov#",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _TERMS.split()},
}
"""The specification's whole context, with https as its loader expects, although the text has http."""


def croissant(chain: Chain) -> Record | None:
    """The description, or None if the chain does not reach the data set."""
    step = chain.step_of(STAGE)
    outputs = {output["name"]: output for output in step.record["outputs"]} if step else {}
    if step is None or not PARTS.keys() <= outputs.keys():
        return None
    record, parts = step.record, {name: outputs[name] for name in PARTS}
    task = record["parameters"].get("task_name") or record["parameters"].get("task") or "task"
    rows = ", ".join(f"{name} {part['rows']} rows" for name, part in parts.items())
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": VERSION,
        "name": str(task),
        "description": f"Exemplars of the task {task} as a search for a prompt used them: {rows}.",
        "url": f"urn:ease-pipelines:run:{record['run']['id']}",
        "license": {"@type": "sc:CreativeWork", "name": "that of the source data; not recorded"},
        "creator": {"@type": "sc:Organization", "name": f"EASE Pipelines {record['software']['ease']}"},
        "datePublished": record["ended"],
        "prov:wasDerivedFrom": [  # without an `@id`, which may hold no spaces, not even escaped ones
            {"@type": "prov:Entity", "url": resource_uri(file["uri"]), "sha256": file["sha256"]}
            for file in record.get("files_read", [])
        ],
        "distribution": [_file(name, part) for name, part in parts.items()],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": name,
                "name": name,
                "key": {"@id": f"{name}/exemplar_id"},
                "field": [_field(name, column) for column in contract.schema],
            }
            for name, contract in PARTS.items()
        ],
    }


def _file(name: str, part: Record) -> Record:
    return {
        "@type": "cr:FileObject",
        "@id": f"{name}.parquet",
        "name": f"{name}.parquet",
        "contentUrl": part["uri"],  # a path where it is one: the loader takes no file://
        "contentSize": f"{part['bytes']} B",
        "encodingFormat": PARQUET,
        "sha256": part["sha256"],
    }


def _field(part: str, column: pa.Field) -> Record:
    many = pa.types.is_list(column.type)
    of = column.type.value_type if many else column.type
    number = "sc:Integer" if pa.types.is_integer(of) else "sc:Text"
    return {
        "@type": "cr:Field",
        "@id": f"{part}/{column.name}",
        "name": column.name,
        "dataType": "sc:Boolean" if pa.types.is_boolean(of) else number,
        **({"isArray": True, "arrayShape": "-1"} if many else {}),
        "source": {"fileObject": {"@id": f"{part}.parquet"}, "extract": {"column": column.name}},
    }
