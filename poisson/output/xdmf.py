# SPDX-License-Identifier: MIT
"""The XDMF file beside a result, by which ParaView and VisIt open it."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from poisson.case.settings import Units
from poisson.output.hdf5 import POINTS
from poisson.output.record import Record, field_note

MARK = " written by poisson "
"""The comment by which a file of ours is known."""

_MOST_READ = 1 << 16
_NOT_IN_XML = dict.fromkeys({*range(0x20), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF} - {*b"\t\n\r"}, "\ufffd")


def path_beside(path: str | Path) -> Path:
    """The name of the XDMF file that belongs to the HDF5 file `path`: ``a.xmf`` for ``a.h5``, ``b.xmf`` for ``b``."""
    path = Path(path)
    return path.with_suffix(".xmf") if path.suffix == ".h5" else path.with_name(path.name + ".xmf")


def content(path: str | Path, solution: Record) -> bytes:
    """The XDMF file that belongs to the result `path`.

    `path`: the HDF5 file, as written by `poisson.output.hdf5.write`. Its name, without the folder, is what the XDMF
    file refers to, so the two can be moved together. `solution`: what is in the HDF5 file.

    Reference: XDMF Model and Format, version 3, https://www.xdmf.org/index.php/XDMF_Model_and_Format: uniform grid,
    topology ``3DCoRectMesh``, ``3DRectMesh`` where nodes are not equally spaced, or ``3DSMesh`` with an angle.
    Dimensions, origin and spacing stand in the order of the array, z y x. A 2D result is one plane at z = 0, as readers
    put a ``2DCoRectMesh`` into the plane of y and z, and a 1D result one line at y = z = 0.
    """
    text: bytes = ElementTree.tostring(_document(Path(path).name, solution), encoding="utf-8", xml_declaration=True)
    return text


def is_ours(path: Path, data_name: str) -> bool:
    """Whether a file may be replaced as one that this package wrote, or that belongs to the result `data_name`."""
    with path.open("rb") as stream:
        head = stream.read(_MOST_READ)
    reference = f">{_escaped(_xml_text(data_name))}:/u<".encode("utf-8", "replace")
    return not head or f"<!--{MARK}-->".encode() in head or reference in head


def _escaped(text: str) -> str:
    """As the text of an element. Python's own function for that would load what reads web pages."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _document(data_name: str, solution: Record) -> ElementTree.Element:
    grid = solution.problem.lattice
    shape = _numbers((*(1,) * (3 - grid.dimension), *grid.array_shape))
    root = ElementTree.Element("Xdmf", Version="3.0")
    root.append(ElementTree.Comment(MARK))
    domain = ElementTree.SubElement(root, "Domain")
    mesh = ElementTree.SubElement(
        domain, "Grid", Name=_xml_text(solution.problem.title) or "result", GridType="Uniform"
    )
    if grid.angle is not None:
        ElementTree.SubElement(mesh, "Topology", TopologyType="3DSMesh", Dimensions=shape)
        geometry = ElementTree.SubElement(mesh, "Geometry", GeometryType="XYZ")
        _data_item(geometry, f"{shape} 3", "8", "HDF", f"{_xml_text(data_name)}:/{POINTS}")
    elif grid.tabulated:
        ElementTree.SubElement(mesh, "Topology", TopologyType="3DRectMesh", Dimensions=shape)
        geometry = ElementTree.SubElement(mesh, "Geometry", GeometryType="VXVYVZ")
        for name, nodes in zip(grid.names, grid.shape, strict=True):
            _data_item(geometry, str(nodes), "8", "HDF", f"{_xml_text(data_name)}:/{name}")
        for _ in range(3 - grid.dimension):
            _data_item(geometry, "1", "8", "XML", "0.0")
    else:
        ElementTree.SubElement(mesh, "Topology", TopologyType="3DCoRectMesh", Dimensions=shape)
        geometry = ElementTree.SubElement(mesh, "Geometry", GeometryType="ORIGIN_DXDYDZ")
        for values, along_others in ((grid.lower, 0.0), (grid.spacing, 1.0)):
            _data_item(geometry, "3", "8", "XML", _numbers((*values, along_others, along_others)[:3][::-1]))
    fields: dict[str, Any] = {"u": solution.u, **solution.fields}
    for name, field in fields.items():
        # The gradient of a 1D result has one component: a scalar to readers.
        vector = field.ndim > grid.dimension and field.shape[-1] > 1
        if vector and grid.angle is not None:
            continue  # components along r and phi would be taken for those along x and y
        attribute = ElementTree.SubElement(
            mesh, "Attribute", Name=name, AttributeType="Vector" if vector else "Scalar", Center="Node"
        )
        if solution.units != Units():
            unit = field_note(name, solution.units)[1]
            ElementTree.SubElement(attribute, "Information", Name="units", Value=_xml_text(unit))
        dimensions = f"{shape} {field.shape[-1]}" if vector else shape
        _data_item(attribute, dimensions, str(field.dtype.itemsize), "HDF", f"{_xml_text(data_name)}:/{name}")
    ElementTree.indent(root)
    return root


def _data_item(parent: ElementTree.Element, dimensions: str, precision: str, form: str, text: str) -> None:
    item = ElementTree.SubElement(
        parent, "DataItem", Dimensions=dimensions, NumberType="Float", Precision=precision, Format=form
    )
    item.text = text


def _numbers(values: tuple[int, ...] | tuple[float, ...]) -> str:
    return " ".join(repr(value) for value in values)


def _xml_text(text: str) -> str:
    """`text` without the characters that no XML file may hold."""
    return text.translate(_NOT_IN_XML)
