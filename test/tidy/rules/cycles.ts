// No import cycles. Only imports that load a module together with the importing one count: types are gone at
// run time, and a dynamic import is a deliberate way out of a cycle. Depth-first search; a path that meets
// itself is one.
import { posix } from 'node:path'
import { type Rule, type SourceFile, type Violation, violation } from '../lib/source-file.ts'
import { importsOf } from '../lib/syntax.ts'

function neighbours(file: SourceFile, known: ReadonlyMap<string, SourceFile>): SourceFile[] {
  return importsOf(file)
    .filter((item) => item.kind === 'value' && item.specifier.startsWith('.'))
    .flatMap((item) => known.get(posix.join(posix.dirname(file.path), item.specifier)) ?? [])
}

function findCycles(files: readonly SourceFile[]): string[][] {
  const known = new Map(files.map((file) => [file.path, file]))
  const finished = new Set<string>()
  const cycles: string[][] = []
  const visit = (file: SourceFile, path: readonly string[]): void => {
    const seenAt = path.indexOf(file.path)
    if (seenAt >= 0) cycles.push([...path.slice(seenAt), file.path])
    if (seenAt >= 0 || finished.has(file.path)) return
    for (const next of neighbours(file, known)) visit(next, [...path, file.path])
    finished.add(file.path)
  }
  for (const file of files) visit(file, [])
  return cycles
}

export const cycles: Rule = {
  name: 'no import cycles',
  check: (files) =>
    findCycles(files).flatMap((cycle): Violation[] => {
      const first = files.find((file) => file.path === cycle[0])
      return first === undefined ? [] : [violation(first, 0, `import cycle: ${cycle.join(' -> ')}`)]
    }),
}
