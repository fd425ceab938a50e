// `npm run check`: what is worth knowing before each commit, in less than three minutes: types, lint, format,
// dead code, the tidy rules and the domain tests. Everything that needs a server is left to `npm test`.
import { testKinds } from '../test/support/kinds.ts'
import { staticSteps } from './lib/steps.ts'
import { emptyTally, report, tallyKinds, tallySteps } from './lib/test-run.ts'

const quickKinds = new Set(['tidy', 'domain'])

const tally = emptyTally()
await tallySteps(staticSteps, tally)
await tallyKinds(
  testKinds.filter((kind) => quickKinds.has(kind.name)),
  tally,
)
report(tally)
