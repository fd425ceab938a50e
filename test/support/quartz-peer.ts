// Real Quartz as a process: builds the harness under test/quartz-harness with Maven (which fetches Quartz at
// the first time), asks it many questions at once, and reads as many answers. Nothing is left running.
import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeFastDirectory } from './temporary-directory.ts'

export type QuartzQuestion = {
  readonly expression: string
  readonly zone: string
  readonly afterMs: number
  readonly count: number
}

/** Instants in order, fewer than asked when there are no more; or why the expression was refused. */
export type QuartzAnswer = readonly number[] | { readonly refused: string }

export type QuartzPeer = {
  ask(questions: readonly QuartzQuestion[]): readonly QuartzAnswer[]
  close(): void
}

const BUILD_MS = 120_000
const ASK_MS = 90_000

/** A text instead of a peer says why it could not be built: most likely Maven has no network. */
export function buildQuartzPeer(): QuartzPeer | string {
  const directory = makeFastDirectory('belfry-quartz')
  const project = fileURLToPath(new URL('../quartz-harness/pom.xml', import.meta.url))
  const build = spawnSync('mvn', ['-q', '-B', '-f', project, `-DbuildFolder=${directory}`, 'compile'], {
    encoding: 'utf8',
    timeout: BUILD_MS,
  })
  const close = (): void => rmSync(directory, { recursive: true, force: true })
  if (build.status !== 0) {
    close()
    return `mvn could not build the harness: ${build.stdout.slice(0, 300)}`
  }
  const classes = [join(directory, 'classes'), join(directory, 'lib', '*')].join(delimiter)
  return { ask: (questions) => askQuartz(classes, questions), close }
}

function askQuartz(classes: string, questions: readonly QuartzQuestion[]): readonly QuartzAnswer[] {
  const lines = questions.map(({ expression, zone, afterMs, count }) =>
    [expression, zone, afterMs, count].join('\t'),
  )
  const run = spawnSync('java', ['-Xmx256m', '-cp', classes, 'Main'], {
    input: `${lines.join('\n')}\n`,
    encoding: 'utf8',
    timeout: ASK_MS,
    maxBuffer: 64 * 1024 * 1024,
  })
  const answers = run.stdout.split('\n').slice(0, -1)
  if (run.status !== 0 || answers.length !== questions.length)
    throw new Error(
      `Quartz ended with ${run.status} after ${answers.length} answers: ${run.stderr.slice(0, 500)}`,
    )
  return answers.map((answer) =>
    answer.startsWith('refused')
      ? { refused: answer }
      : answer
          .split(' ')
          .filter((word) => word !== '-' && word !== '')
          .map(Number),
  )
}
