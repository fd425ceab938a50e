// Tests run: none is switched off or narrowed in its text, and none lies in a folder that no run looks into.
// A suite that needs a service which may be missing asks for it by `describeNeeding` (or `context.skip` with
// a reason), so that the summary can say what was left out and why.
import { testKinds } from '../../support/kinds.ts'
import { isTest, type Rule, type SourceFile, type Violation, violation } from '../lib/source-file.ts'
import { dottedName, walk } from '../lib/syntax.ts'

const switchedOff = /^(?:describe|suite|it|test|bench)(?:\.\w+)*\.(?:skip|only|todo)$|^x(?:describe|it|test)$/

function strayTest(file: SourceFile): Violation[] {
  const known = testKinds.some(({ name }) => file.path.startsWith(`test/${name}/`))
  if (known || !file.path.endsWith('.test.ts')) return []
  return [violation(file, 0, 'no kind of test/support/kinds.ts covers this folder, so it would never run')]
}

export const testsRun: Rule = {
  name: 'every test is found, none is switched off or narrowed in its text',
  check: (files) =>
    files
      .filter((file) => isTest(file.path))
      .flatMap((file) => {
        const found = strayTest(file)
        walk(file, (node) => {
          const name = node.type === 'CallExpression' ? dottedName(node['callee']) : undefined
          if (name === undefined || !switchedOff.test(name)) return
          found.push(violation(file, node.start, `${name}; run it, or skip it for a stated reason`))
        })
        return found
      }),
}
