// No default exports (a thing has one name everywhere), and no barrels inside a package: only the files at
// the edge of a package, which its package.json exports, may consist of re-exports. Configuration files
// export what their tool asks for.
import { isCode, type Rule, type SourceFile, type Violation, violation } from '../lib/source-file.ts'
import { walk } from '../lib/syntax.ts'

const edge = /^packages\/[^/]+\/src\/(?:index|schedule|testing|functions)\.ts$/

function defaultExports(file: SourceFile): Violation[] {
  const found: Violation[] = []
  walk(file, (node) => {
    if (node.type === 'ExportDefaultDeclaration') {
      found.push(violation(file, node.start, 'default export; export it by its name'))
    }
  })
  return found
}

function barrel(file: SourceFile): Violation[] {
  const program = file.parsed?.program
  if (program === undefined || edge.test(file.path) || program.body.length === 0) return []
  const onlyReExports = program.body.every(
    (statement) =>
      statement.type === 'ExportAllDeclaration' ||
      (statement.type === 'ExportNamedDeclaration' && statement.source !== null),
  )
  return onlyReExports
    ? [violation(file, 0, 'a barrel inside a package; import from the files themselves')]
    : []
}

export const exportsRule: Rule = {
  name: 'no default exports, no barrels inside a package',
  check: (files) =>
    files
      .filter((file) => isCode(file) && !file.path.endsWith('.config.ts'))
      .flatMap((file) => [...defaultExports(file), ...barrel(file)]),
}
