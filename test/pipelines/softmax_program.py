"""MLIR of softmax, as it arrives."""

from __future__ import annotations


def program(shape: tuple[str, ...], along: int = -1, safe: bool = False) -> str:
    """MLIR of the softmax of a tensor along a dimension, by default of its rows; or of a safe one."""
    rank = len(shape)
    along %= rank
    dimensions = [f"d{i}" for i in range(rank)]
    whole, row = (
        f"affine_map<({', '.join(dimensions)}) -> ({', '.join(kept)})>"
        for kept in (dimensions, dimensions[:along] + dimensions[along + 1 :])
    )
    loops = ", ".join(['"parallel"'] * rank)
    reduction = ", ".join('"reduction"' if i == along else '"parallel"' for i in range(rank))
    tensor, rows, truths, truths_of_rows = (
        f"tensor<{'x'.join([*sizes, element])}>"
        for element in ("f32", "i1")
        for sizes in (shape, shape[:along] + shape[along + 1 :])
    )
    size = "%n" if shape[0] == "?" else ""

    def elementwise(result: str, operands: str, types: str, maps: str, body: str) -> str:
        return f"""
      {result} = linalg.generic {{indexing_maps = [{maps}, {whole}], iterator_types = [{loops}]}}
        ins({operands} : {types}) outs(%e : {tensor}) {{
        ^bb0({body}
          linalg.yield %r : f32
      }} -> {tensor}"""

    def with_rows(result: str, operands: str, combine: str) -> str:
        body = f"%a: f32, %b: f32, %o: f32): %r = {combine} %a, %b : f32"
        return elementwise(result, operands, f"{tensor}, {rows}", f"{whole}, {row}", body)

    def reduced(result: str, operand: str, init: str, combine: str) -> str:
        return f"""
      {result} = linalg.generic {{indexing_maps = [{whole}, {row}], iterator_types = [{reduction}]}}
        ins({operand} : {tensor}) outs({init} : {rows}) {{
        ^bb0(%a: f32, %b: f32):
          %r = {combine} %a, %b : f32
          linalg.yield %r : f32
      }} -> {rows}"""

    masked = f"""
      %true = arith.constant true
      %et = tensor.empty({size}) : {truths}
      %ert = tensor.empty({size}) : {truths_of_rows}
      %zeros = linalg.fill ins(%zero : f32) outs(%e : {tensor}) -> {tensor}
      %ti = linalg.fill ins(%true : i1) outs(%ert : {truths_of_rows}) -> {truths_of_rows}
      %is = linalg.generic {{indexing_maps = [{whole}, {whole}], iterator_types = [{loops}]}}
        ins(%x : {tensor}) outs(%et : {truths}) {{
        ^bb0(%a: f32, %o: i1):
          %r = arith.cmpf oeq, %a, %lowest : f32
          linalg.yield %r : i1
      }} -> {truths}
      %all = linalg.generic {{indexing_maps = [{whole}, {row}], iterator_types = [{reduction}]}}
        ins(%is : {truths}) outs(%ti : {truths_of_rows}) {{
        ^bb0(%a: i1, %b: i1):
          %r = arith.andi %a, %b : i1
          linalg.yield %r : i1
      }} -> {truths_of_rows}
      %z = linalg.generic {{indexing_maps = [{row}, {whole}, {whole}, {whole}], iterator_types = [{loops}]}}
        ins(%all, %zeros, %y : {truths_of_rows}, {tensor}, {tensor}) outs(%e : {tensor}) {{
        ^bb0(%c: i1, %a: f32, %b: f32, %o: f32):
          %r = arith.select %c, %a, %b : f32
          linalg.yield %r : f32
      }} -> {tensor}"""
    return f"""
    func.func @main(%x: {tensor}) -> {tensor} {{
      %zero = arith.constant 0.0 : f32
      %lowest = arith.constant 0xFF800000 : f32
      %c0 = arith.constant 0 : index
      %n = tensor.dim %x, %c0 : {tensor}
      %e = tensor.empty({size}) : {tensor}
      %er = tensor.empty({size}) : {rows}
      %li = linalg.fill ins(%lowest : f32) outs(%er : {rows}) -> {rows}
      %zi = linalg.fill ins(%zero : f32) outs(%er : {rows}) -> {rows}
      {reduced("%m", "%x", "%li", "arith.maximumf")}
      {with_rows("%d", "%x, %m", "arith.subf")}
      {elementwise("%p", "%d", tensor, whole, "%a: f32, %o: f32): %r = math.exp %a : f32")}
      {reduced("%s", "%p", "%zi", "arith.addf")}
      {with_rows("%y", "%p, %s", "arith.divf")}
      {masked if safe else ""}
      return {"%z" if safe else "%y"} : {tensor}
    }}"""
