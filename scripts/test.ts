// `npm test`: prepares the machine, builds, runs the static checks and then every kind of test there is.
// Names of kinds as arguments (`npm test -- domain http`) run only those. The last line is always the
// summary.
import { testKinds } from '../test/support/kinds.ts'
import { describeLeftOut, prepareServices } from './lib/prepare-services.ts'
import { type Step, staticSteps } from './lib/steps.ts'
import { emptyTally, report, tallyKinds, tallySteps } from './lib/test-run.ts'

const build: Step = {
  title: 'build',
  command: ['node', 'scripts/run.mjs', 'scripts/build.ts'],
  limitMinutes: 5,
}

const wanted = process.argv.slice(2)
const known = testKinds.map((kind) => kind.name)
const unknown = wanted.filter((name) => !known.includes(name))
const tally = emptyTally()

if (unknown.length > 0) {
  console.log(`Unknown kind of test: ${unknown.join(', ')}. There are: ${known.join(', ')}.`)
  tally.failed += unknown.length
} else {
  const leftOut = await prepareServices()
  if (wanted.length === 0) await tallySteps([build, ...staticSteps], tally)
  const kinds = testKinds.filter((kind) => wanted.length === 0 || wanted.includes(kind.name))
  await tallyKinds(kinds, tally)
  if (leftOut.length > 0) console.log('\nLeft out because something is missing here:')
  for (const service of leftOut) console.log(describeLeftOut(service))
  const ofMachine = leftOut.filter((service) => service.ofCheckout === undefined)
  if (process.env['CI'] === 'true') tally.failed += ofMachine.length
}
report(tally)
