// Runs kinds of tests one after the other, each in a vitest process of its own, and adds up what they report.
// A kind whose process ends without a readable report counts as one failure: silence is never a pass.
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestKind } from '../../test/support/kinds.ts'
import type { Counts, Skipped } from './counting-reporter.ts'
import { runStep, type Step } from './steps.ts'

export type Tally = { passed: number; failed: number; skipped: Skipped[] }

export function emptyTally(): Tally {
  return { passed: 0, failed: 0, skipped: [] }
}

/** A step without tests of its own counts as one. */
export async function tallySteps(steps: readonly Step[], tally: Tally): Promise<void> {
  for (const step of steps) {
    if (await runStep(step)) tally.passed += 1
    else tally.failed += 1
  }
}

export async function tallyKinds(kinds: readonly TestKind[], tally: Tally): Promise<void> {
  for (const kind of kinds.filter(hasTests)) {
    const counts = await runKind(kind)
    tally.passed += counts.passed
    tally.failed += counts.failed
    tally.skipped.push(...counts.skipped)
  }
}

function hasTests(kind: TestKind): boolean {
  return globSync(`test/${kind.name}/**/*.test.ts`).length > 0
}

async function runKind(kind: TestKind): Promise<Counts> {
  const folder = mkdtempSync(join(tmpdir(), 'belfry-counts-'))
  const file = join(folder, 'counts.json')
  const exitedClean = await runStep({
    title: `tests: ${kind.name}`,
    command: ['vitest', 'run', '--project', kind.name],
    limitMinutes: kind.limitMinutes,
    env: { TEST_COUNTS_FILE: file },
  })
  const counts = readCounts(file)
  rmSync(folder, { recursive: true, force: true })
  if (counts === undefined) return { passed: 0, failed: 1, skipped: [] }
  // A run may break after its report, for instance in a global teardown.
  return !exitedClean && counts.failed === 0 ? { ...counts, failed: 1 } : counts
}

function readCounts(file: string): Counts | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Counts
  } catch {
    return undefined
  }
}

/** Prints what was skipped and why, then the summary, which is always the last line. */
export function report(tally: Tally): void {
  if (tally.skipped.length > 0) console.log('\nSkipped:')
  for (const skip of tally.skipped) console.log(`  ${skip.test}: ${skip.reason}`)
  process.exitCode = tally.failed === 0 ? 0 : 1
  console.log(`\n${tally.passed} passed, ${tally.failed} failed, ${tally.skipped.length} skipped`)
}
