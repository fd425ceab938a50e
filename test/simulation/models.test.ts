// The protocols as models (test/models/*.pml), searched in full by Spin: every order of steps, and every
// moment at which a term or a session may run out, or a process stop or die. Each model holds, and each of
// its guards is needed: with one left out Spin finds a way to break the promise.
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { describeNeeding } from '../support/needs.ts'

const models = fileURLToPath(new URL('../models', import.meta.url))

const good: readonly (readonly [model: string, defines: string])[] = [
  ['term', ''],
  ['lease', ''],
  ['lease', 'AT_MOST_ONCE'],
  ['completion', ''],
]
const broken: readonly (readonly [model: string, defines: string])[] = [
  ['term', 'NO_TERM_CHECK'],
  ['term', 'NO_EXPECTED_TIME'],
  ['term', 'FIRE_IN_TWO_STEPS'],
  ['lease', 'NO_FENCE'],
  ['lease', 'AT_MOST_ONCE EXECUTE_FIRST'],
  ['lease', 'AT_MOST_ONCE RESCUE_RUNS_AGAIN'],
  ['completion', 'FREE_BEFORE_COMMIT'],
  ['completion', 'APPLY_TWICE'],
]

/** What the search found, in Spin's words. */
function search(spin: string, model: string, defines: string): string {
  const directory = mkdtempSync(join(tmpdir(), 'belfry-model-'))
  try {
    copyFileSync(join(models, `${model}.pml`), join(directory, 'model.pml'))
    const run = (program: string, ...argv: string[]): string =>
      execFileSync(program, argv, { cwd: directory, encoding: 'utf8', timeout: 60_000 })
    const names = defines.split(' ').filter((name) => name !== '')
    run(spin, ...names.map((name) => `-D${name}`), '-a', 'model.pml')
    run('gcc', '-O1', '-w', '-DSAFETY', '-o', 'pan', 'pan.c')
    return run('./pan', '-m1000000')
  } finally {
    rmSync(directory, { recursive: true })
  }
}

describeNeeding('spin', 'models of the protocols', (spin) => {
  test.each(good)('%s %s: no order of steps breaks it', (model, defines) => {
    const found = search(spin, model, defines)
    expect(found).toContain('errors: 0\n')
    expect(found, 'the whole space was searched').not.toMatch(/max search depth too small|out of memory/)
    expect(Number(/(\d+) states, stored/.exec(found)?.[1])).toBeGreaterThan(100)
  })

  test.each(broken)('%s with %s: a way to break it is found', (model, defines) => {
    const found = search(spin, model, defines)
    expect(found).toContain('assertion violated')
    expect(found).toContain('errors: 1\n')
  })
})
