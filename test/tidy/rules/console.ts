// No `console` in the libraries and the server: they log through telemetry, and a library never writes to its
// host's terminal. The CLI, scripts, examples and tests talk to a person and may.
import { isCode, type Rule, type Violation, violation } from '../lib/source-file.ts'
import { dottedName, walk } from '../lib/syntax.ts'

const free = /^(?:packages\/cli|scripts|examples|test)\//

export const consoleRule: Rule = {
  name: 'no console outside the CLI, scripts, examples and tests',
  check: (files) =>
    files
      .filter((file) => isCode(file) && !free.test(file.path))
      .flatMap((file) => {
        const found: Violation[] = []
        walk(file, (node) => {
          const name =
            node.type === 'MemberExpression' ? dottedName(node)?.replace(/^globalThis\./, '') : undefined
          if (name?.startsWith('console.') !== true) return
          found.push(violation(file, node.start, `${name}; emit an event or use the logger`))
        })
        return found
      }),
}
