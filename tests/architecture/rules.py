"""Architecture rules, each a function that returns the violations in a project.

1. torch is imported only in ``attention/``, ``language/`` and ``models/``.
2. Qt is imported only in ``shell/``, ``widgets/`` and in files named for what they draw or control.
3. A feature is one folder and never imports another feature.
4. Folders import only folders below them, there are no import cycles, and no object receives the
window that contains it.
5. Code asks for the role of a stage; names of stages are string literals only in ``stages.py``.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.architecture.project_graph import ImportTime, name_of
from visualizer.attention.roles import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.architecture.project_graph import Module, Project

TORCH_HOMES = ("visualizer/attention", "visualizer/language", "visualizer/models")
FLOAT64_BY_ONE = ("visualizer/models", "visualizer/api")
FLOAT64 = ("torch.float64", "torch.double")
"""Names by which ``attention/cached_tensor.py`` refers to a type for conversion."""
QT = ("PySide6", "pyqtgraph", "shiboken6")
QT_HOMES = ("visualizer/shell", "visualizer/widgets", "visualizer/app.py")
QT_NAMES = ("widget.py", "paint.py", "dialog.py", "dialogs.py", "controller.py")
MODEL_NAMES = ("/model.py", "/presenter.py", "/screen_presenter.py", "/run_state.py")
QT_EXCEPTIONS = {
    "visualizer/export/figures/svg_pdf_writer.py": "QMimeData of a figure",
    "visualizer/export/figures/document_attachment.py": "text in QImage and QPdfWriter",
    "visualizer/export/figures/figure_page.py": "places and paints a figure",
    "visualizer/export/figures/png_writer.py": "QImage, band by band",
    "visualizer/export/figures/rasterization.py": "QImage of a figure",
    "visualizer/export/films/animation_frames.py": "paints the frames of a film",
    "visualizer/export/films/film_layout.py": "places the frames of a film",
    "visualizer/export/export_runner.py": "signals of exports on a thread",
    "visualizer/export/offscreen_qt_application.py": "starts Qt without a screen",
    "visualizer/features/head_table/widget.py": "QAbstractTableModel of the heads",
    "visualizer/heatmap/colour_mapping.py": "QImage of indexed colours",
    "visualizer/heatmap/board_layout.py": "QRectF, the same for window and export",
    "visualizer/heatmap/flow_placement.py": "QRectF and font metrics",
    "visualizer/heatmap/pixmap_caches.py": "keeps QPixmaps",
    "visualizer/lab/attention_view/layout.py": "QRectF and font metrics",
    "visualizer/lab/commands.py": "table of commands with their shortcuts",
    "visualizer/lab/loss_plot/chart_paint.py": "QRectF and font metrics",
    "visualizer/lab/training_film/writer.py": "paints the frames of a film",
    "visualizer/lab/window.py": "a window",
    "visualizer/session/newest_request_worker.py": "a QThread, QtCore alone",
    "visualizer/session/workspace.py": "one QObject with one signal, QtCore alone",
}
HTML_WIDGETS = {
    *("QErrorMessage", "QInputDialog", "QLabel", "QMessageBox", "QProgressDialog"),
    *("QTextBrowser", "QTextEdit", "QToolTip", "QWhatsThis"),
}
"""Widgets that show text as HTML if it looks like HTML, and would open the files that it names."""
HTML_HOMES = {
    "visualizer/widgets/labels.py": {"QLabel", "QToolTip"},
    "visualizer/widgets/dialogs.py": {"QMessageBox", "QTextBrowser"},
    "visualizer/widgets/documentation_window.py": {"QTextBrowser", "QTextEdit"},
    "visualizer/lab/runs/controller.py": {"QMessageBox"},
}
"""Modules in which the text format of these widgets is set; other code uses these modules."""
TIP_SETTERS = {"setToolTip", "setWhatsThis"}
PICKLING = (
    "pickle", "cPickle", "_pickle", "cloudpickle", "dill", "shelve", "joblib", "marshal",
    "multiprocessing", "concurrent.futures.ProcessPoolExecutor", "torch.load",
    "torch.multiprocessing", "torch.distributed.run", "torch.distributed.elastic",
    "torch.distributed.rpc", "torch.distributed.launch",
)  # fmt: skip
"""Modules that can run code in data that they read or send; ``torchrun`` accepts pickles from the
network.
"""
UNPICKLED = {"visualizer/attention/importers/pt_safetensors_files.py": {"pickle.UnpicklingError"}}
"""Modules that use a name from these modules but read no data with it."""
STARTED = {"torchrun", "torch.distributed.run", "torch.distributed.launch"}
OBJECTS = {
    "broadcast_object_list", "scatter_object_list", "send_object_list", "recv_object_list",
    "all_gather_object", "gather_object",
}  # fmt: skip
"""Functions of torch.distributed that use pickle."""
CODE = {"eval", "exec", "compile", "__import__"}
RUNNING = {
    *(("builtins", name) for name in CODE),
    *(("os", name) for name in ("system", "popen")),
    *(("yaml", name) for name in ("load", "load_all", "full_load", "unsafe_load")),
}
"""Functions that run a text as code, by module and name."""
SAFE = {"weights_only": True, "allow_pickle": False, "shell": False, "trust_remote_code": False}
"""The only allowed values of these arguments, which must be literals."""
FEATURES = "visualizer/features/"
PANE_LIST = "visualizer/shell/pane_table.py"
"""The only module in the shell that knows which panes exist."""
FLOORS = (
    ("version", "errors", "resources", "brief_repr", "format"),
    ("progress", "optional_packages"),
    ("process_settings", "lazy_numpy"),
    ("console", "storage"),
    ("attention",),
    ("language",),
    ("models",),
    ("session",),
    ("documents",),
    ("explanations", "widgets"),
    ("heatmap",),
    ("generation",),
    ("features",),
    ("export",),
    ("lab",),
    ("file_opening",),
    ("shell",),
    ("api", "cli"),
    ("app",),
    ("__main__", "__init__"),
)
"""From bottom to top. Folders on the same level do not import each other."""

ALLOWED_UPWARD: frozenset[tuple[str, str]] = frozenset()
"""Imports of a higher level that are still to be removed: (importer, imported)."""
ALLOWED_CIRCLES: frozenset[frozenset[str]] = frozenset()
"""Import cycles that are still to be removed."""
STAGE_NAMES = frozenset(Role) - {Role.BIAS}  # "bias" is more often a parameter or an argument
NOT_STAGES = {
    "visualizer/attention/stages.py": "the stage table",
    "visualizer/api/argument_conversion.py": "an argument of the Python API",
    "visualizer/api/argument_validation.py": "an argument of the Python API",
    "visualizer/attention/head_measures.py": "numbers of a measure",
    "visualizer/attention/importers/tensor_file_reader.py": "names of axes and of arrays in files",
    "visualizer/api/recorder.py": "an argument of the Python API",
    "visualizer/api/training_callbacks.py": "an argument of the Python API",
    "visualizer/documents/exported_numbers.py": "keys of the JSON export",
    "visualizer/documents/open_document.py": "a setting",
    "visualizer/explanations/attention_weights.py": "words of a sentence",
    "visualizer/export/figures/notebook_page.py": "keys of the description of a page",
    "visualizer/features/head_table/presenter.py": "words of a sentence",
    "visualizer/features/layer_overview/presenter.py": "fields of a panel",
    "visualizer/features/line_view/presenter.py": "words of a caption",
    "visualizer/features/shapes/presenter.py": "words for axes",
    "visualizer/features/start_page/examples.py": "keys of the thumbnails",
    "visualizer/features/tensor_editor/presenter.py": "words of a cell",
    "visualizer/features/tensor_editor/widget.py": "words of a cell",
    "visualizer/features/token_strip/presenter.py": "words of a sentence",
    "visualizer/lab/attention_view/presenter.py": "words of a caption",
    "visualizer/lab/training/loss_history.py": "slots",
    "visualizer/models/array_runs.py": "words of a sentence",
    "visualizer/models/attention_recorder.py": "fields of a recorded call",
    "visualizer/models/attention_snapshot.py": "an argument of the Python API",
    "visualizer/models/kv_cache_generation.py": "attributes of a cache of transformers",
    "visualizer/models/chunked_prefill.py": "fields of a recorded call",
    "visualizer/models/model_client/prefetch.py": "a request",
    "visualizer/models/model_client/remote_stages.py": "a request",
    "visualizer/models/model_protocol/responses.py": "an array of a message",
    "visualizer/models/model_protocol/requests.py": "a request",
    "visualizer/models/model_source.py": "an edit of a head",
    "visualizer/models/forward_runner.py": "fields of a recorded call",
    "visualizer/models/recorded_texts.py": "attributes of a cache of transformers",
    "visualizer/models/unfinished_reading.py": "fields of a recorded call",
    "visualizer/shell/commands.py": "an edit of a head",
}
"""Modules in which a string literal equals the name of a stage but means something else."""
WINDOWS = ("MainWindow", "LabWindow")
WINDOW_HOLDERS = ("visualizer/app.py", "visualizer/shell/window_manager.py")
"""Modules that open windows and keep them."""


def torch_stays_in_its_homes(project: Project) -> Iterator[str]:
    """Only three folders import torch; no other module loads torch through one of them."""
    loads = {
        module.path: any(
            found.is_within("torch") and found.when is ImportTime.LOAD for found in module.imports
        )
        for module in project.program
    }
    for module in project.program:
        is_home = module.is_within(*TORCH_HOMES)
        for found in module.imports:
            if found.is_within("torch") and (not is_home or module.is_package):
                yield f"{module.path}:{found.line} imports {found.name}"
        if (not is_home or module.is_package) and (way := project.way_to(module, loads)):
            yield f"loads torch: {' → '.join(way)}"


def qt_stays_in_its_homes(project: Project) -> Iterator[str]:
    """Qt is imported only where something is drawn or controlled, and in a few listed modules."""
    for module in project.program:
        if not _may_use_qt(module):
            for found in module.imports:
                if found.is_within(*QT) and found.when is not ImportTime.TYPES:
                    yield f"{module.path}:{found.line} imports {found.name}"


def models_load_no_qt(project: Project) -> Iterator[str]:
    """Modules that models import do not import Qt."""
    loads = {
        module.path: any(
            found.is_within(*QT) and found.when is ImportTime.LOAD for found in module.imports
        )
        for module in project.program
    }
    for module in project.program:
        if module.path.endswith(MODEL_NAMES) and (way := project.way_to(module, loads)):
            yield f"loads Qt: {' → '.join(way)}"


def _may_use_qt(module: Module) -> bool:
    if module.is_package:
        return False
    return (
        module.is_within(*QT_HOMES)
        or module.path.endswith(QT_NAMES)
        or module.path in QT_EXCEPTIONS
    )


def every_qt_exception_is_used(project: Project) -> Iterator[str]:
    """An exception that is no longer needed is removed from the list."""
    for path in QT_EXCEPTIONS:
        module = project.modules.get(path)
        if module is None or not any(found.is_within(*QT) for found in module.imports):
            yield f"{path} imports no Qt"


def features_stay_apart(project: Project) -> Iterator[str]:
    """No feature imports another one, not even for type checking."""
    for module, target, found in project.arrows():
        here, there = _feature(module), _feature(target)
        if here and there and here != there:
            yield f"{module.path}:{found.line} imports {found.name}"


def _feature(module: Module) -> str:
    inside = module.path.removeprefix(FEATURES)
    return inside.partition("/")[0] if module.path.startswith(FEATURES) and "/" in inside else ""


def the_shell_names_no_pane(project: Project) -> Iterator[str]:
    """Features describe their panes; the shell lists these descriptions in one module."""
    panes = {
        str(node.args[0].value)
        for module in project.program
        if _feature(module) and module.path.endswith("/pane_spec.py")
        for node in module.nodes
        if isinstance(node, ast.Call) and name_of(node.func) == "PaneSpec"
        if isinstance(node.args[0], ast.Constant)
    }
    for module in project.program:
        if not module.is_within("visualizer/shell") or module.path == PANE_LIST:
            continue
        for found in module.imports:
            if found.is_within("visualizer.features") and ".pane" in found.name:
                yield f"{module.path}:{found.line} imports {found.name}"
        for node in module.nodes:
            if isinstance(node, ast.Constant) and node.value in panes:
                yield f"{module.path}:{node.lineno} names the pane {node.value}"


def floors_look_down(project: Project) -> Iterator[str]:
    """A folder imports only its own level's folder and the levels below."""
    for module, target, found in project.arrows():
        here, there = _top(module), _top(target)
        if here == there or (here, there) in ALLOWED_UPWARD or target.path.count("/") == 0:
            continue
        if _floor(there) >= _floor(here):
            yield f"{module.path}:{found.line} imports {found.name}"


def every_folder_has_a_floor(project: Project) -> Iterator[str]:
    """Every new folder is added to the table of levels."""
    known = {name for names in FLOORS for name in names}
    for module in project.program:
        if _top(module) not in known:
            yield f"{module.path}: {_top(module)} stands on no floor"


def _top(module: Module) -> str:
    return module.path.split("/")[1].removesuffix(".py")


def _floor(name: str) -> int:
    return next((at for at, names in enumerate(FLOORS) if name in names), -1)


def no_circles(project: Project) -> Iterator[str]:
    """No modules import each other in a cycle, at any time."""
    for circle in project.circles():
        if frozenset(circle) not in ALLOWED_CIRCLES:
            yield " ↔ ".join(circle)


def nothing_takes_its_window(project: Project) -> Iterator[str]:
    """No parameter or field has the type of a window, except where windows are kept."""
    for module in project.program:
        if module.path in WINDOW_HOLDERS:
            continue
        defined = {node.name for node in module.tree.body if isinstance(node, ast.ClassDef)}
        for node in module.nodes:
            hint = getattr(node, "annotation", None)
            for name in _names(hint):
                if name in WINDOWS and name not in defined:
                    yield f"{module.path}:{node.lineno} takes a {name}"  # type: ignore[attr-defined]


def _names(hint: ast.expr | None) -> Iterator[str]:
    for node in ast.walk(hint) if hint else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Name | ast.Attribute):
            yield name_of(node)


def class_names_are_unique(project: Project) -> Iterator[str]:
    """No two classes of the program have the same name."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in project.program:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.path)
    yield from (f"{name}: {', '.join(paths)}" for name, paths in places.items() if len(paths) > 1)


def only_attention_asks_whether_a_run_is_captured(project: Project) -> Iterator[str]:
    """Above `attention/`, code asks what a trace contains, not whether a run was captured."""
    for module in project.program:
        if module.path.startswith("visualizer/attention/"):
            continue
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and node.attr == "captured":
                holder = name_of(node.value)
                if holder == "run" or holder.endswith("_run") or holder == "kept":
                    yield f"{module.path}:{node.lineno} asks {holder}.captured"


def code_asks_for_roles_of_stages(project: Project) -> Iterator[str]:
    """Stages are found by `Role`, because a computation need not have a stage for each role."""
    for module in project.program:
        found = [
            f"{module.path}:{node.lineno} quotes “{node.value}”"
            for node in module.nodes
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value in STAGE_NAMES
        ]
        if module.path in NOT_STAGES and not found:
            yield f"{module.path} quotes no name of a stage: remove it from NOT_STAGES"
        if module.path not in NOT_STAGES:
            yield from found


def float64_is_made_on_the_cpu(project: Project) -> Iterator[str]:
    """Only one function in `models/` converts to float64, which Apple GPUs do not support."""
    for module in project.program:
        if not module.path.startswith(FLOAT64_BY_ONE):
            continue
        for node in module.nodes:
            if not isinstance(node, ast.Call):
                continue
            given = [*node.args, *(named.value for named in node.keywords)]
            is_float64 = any(ast.unparse(each) in FLOAT64 for each in given)
            if is_float64 or name_of(node.func) == "double":
                yield f"{module.path}:{node.lineno}: {ast.unparse(node)}"


def no_text_is_taken_for_html(project: Project) -> Iterator[str]:
    """Widgets that guess the text format are used only in listed modules; tooltips are plain."""
    for module in project.program:
        for found in module.imports:
            kind = found.name.rpartition(".")[2]
            allowed = HTML_HOMES.get(module.path, set())
            is_loaded = found.when is not ImportTime.TYPES
            if is_loaded and found.is_within(*QT) and kind in HTML_WIDGETS - allowed:
                yield f"{module.path}:{found.line} imports {kind}"
        for node in module.nodes:
            is_tip = isinstance(node, ast.Call) and name_of(node.func) in TIP_SETTERS
            if isinstance(node, ast.Call) and is_tip and not _is_plain(node.args[-1]):
                yield f"{module.path}:{node.lineno}: {ast.unparse(node)}"


def _is_plain(text: ast.expr) -> bool:
    """Return whether a tooltip is a literal or a constant, or was converted to plain text."""
    if isinstance(text, ast.IfExp):
        return _is_plain(text.body) and _is_plain(text.orelse)
    if isinstance(text, ast.Call):
        return name_of(text.func) == "plain_tooltip"
    if isinstance(text, ast.Subscript):
        return _is_plain(text.value)
    return isinstance(text, ast.Constant) or name_of(text).isupper()


def nothing_that_is_read_can_run(project: Project) -> Iterator[str]:
    """No file, message or text is read in a way that could run code in it."""
    for module in project.program:
        for found in module.imports:
            is_error = found.name in UNPICKLED.get(module.path, set())
            if found.is_within(*PICKLING) and not is_error:
                yield f"{module.path}:{found.line} imports {found.name}"
        for node in module.nodes:
            if isinstance(node, ast.Constant) and node.value in STARTED:
                yield f"{module.path}:{node.lineno} starts {node.value}"
            if isinstance(node, ast.Call) and _may_run(node):
                yield f"{module.path}:{node.lineno}: {ast.unparse(node)}"


def _may_run(call: ast.Call) -> bool:
    """Return whether a call can run code that is contained in a text or in data."""
    name = name_of(call.func)
    holder = name_of(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    given = {each.arg: each.value for each in call.keywords if each.arg in SAFE}
    is_unsafe = any(
        not isinstance(value, ast.Constant) or value.value is not SAFE[str(argument)]
        for argument, value in given.items()
    )
    is_code = isinstance(call.func, ast.Name) and name in CODE
    is_load = name == "load" and holder == "torch" and "weights_only" not in given
    by_place = name == "load" and holder in {"np", "numpy"} and len(call.args) > 2
    is_running = (holder, name) in RUNNING or name in OBJECTS
    return is_unsafe or is_code or is_load or by_place or is_running


def every_unpickled_name_is_used(project: Project) -> Iterator[str]:
    """A name that is no longer used is removed from the list of harmless uses."""
    for path, names in UNPICKLED.items():
        module = project.modules.get(path)
        used = {found.name for found in module.imports} if module else set()
        yield from (f"{path} does not import {name}" for name in names - used)


def packages_import_nothing_heavy(project: Project) -> Iterator[str]:
    """An ``__init__`` imports only the standard library, and loads an API when it is used."""
    for module in project.program:
        for found in module.imports if module.is_package else ():
            is_heavy = found.is_within("visualizer", "torch", "numpy", *QT)
            is_late = found.when is ImportTime.CALL and found.is_within("visualizer.api")
            is_free = found.when is ImportTime.TYPES or found.is_within("visualizer.version")
            if is_heavy and not (is_late or is_free):
                yield f"{module.path}:{found.line} imports {found.name}"


def imports_give_the_whole_name(project: Project) -> Iterator[str]:
    """No import is relative, so that readers and these rules see the full name of the module."""
    for module in project.modules.values():
        for found in module.imports:
            if found.name.startswith("."):
                yield f"{module.path}:{found.line} imports {found.name}"


def every_test_asserts(project: Project) -> Iterator[str]:
    """A test asserts something, expects an error or warning, or calls an ``assert_…`` helper."""
    for module in project.modules.values():
        for node in module.nodes if module.is_test else ():
            if isinstance(node, ast.FunctionDef) and _is_silent_test(node):
                yield f"{module.path}:{node.lineno} {node.name} asserts nothing"


def _is_silent_test(node: ast.FunctionDef) -> bool:
    return node.name.startswith("test_") and not any(map(_asserts, ast.walk(node)))


def _asserts(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        name = name_of(node.func)
        return name in {"raises", "warns"} or name.startswith("assert_")
    return isinstance(node, ast.Assert)


def no_test_sleeps(project: Project) -> Iterator[str]:
    """A test waits for a condition, never for a fixed time."""
    for module in project.modules.values():
        for node in module.nodes if module.is_test else ():
            if isinstance(node, ast.Call) and _sleeps(node.func):
                yield f"{module.path}:{node.lineno}: {ast.unparse(node)}"


def _sleeps(called: ast.expr) -> bool:
    by_bot = isinstance(called, ast.Attribute) and name_of(called.value) == "qtbot"
    return name_of(called) in {"sleep", "qSleep", "qWait"} or (by_bot and name_of(called) == "wait")


RULES: dict[str, Callable[[Project], Iterator[str]]] = {
    rule.__name__: rule
    for rule in (
        torch_stays_in_its_homes,
        qt_stays_in_its_homes,
        models_load_no_qt,
        every_qt_exception_is_used,
        features_stay_apart,
        the_shell_names_no_pane,
        floors_look_down,
        every_folder_has_a_floor,
        no_circles,
        nothing_takes_its_window,
        class_names_are_unique,
        only_attention_asks_whether_a_run_is_captured,
        code_asks_for_roles_of_stages,
        float64_is_made_on_the_cpu,
        no_text_is_taken_for_html,
        nothing_that_is_read_can_run,
        every_unpickled_name_is_used,
        packages_import_nothing_heavy,
        imports_give_the_whole_name,
        every_test_asserts,
        no_test_sleeps,
    )
}
