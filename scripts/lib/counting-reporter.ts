// A vitest reporter that writes what scripts/test.ts adds up: how many tests passed, failed and were skipped,
// and why those were skipped. Things that fail outside a test (a file that cannot be loaded, an unhandled
// rejection) count as failures of their own, so that no run can look better than it was.
import { writeFileSync } from 'node:fs'
import type { Reporter, TestCase, TestModule, TestSuite } from 'vitest/node'

export type Skipped = { readonly test: string; readonly reason: string }

export type Counts = {
  readonly passed: number
  readonly failed: number
  readonly skipped: readonly Skipped[]
}

function skippedFrom(test: TestCase): Skipped {
  const result = test.result()
  const note = result.state === 'skipped' ? result.note : undefined
  const reason = note ?? (setupFailed(test) ? 'its setup failed' : 'no reason given')
  return { test: `${test.module.relativeModuleId} > ${test.fullName}`, reason }
}

function setupFailed(test: TestCase): boolean {
  for (let parent: TestSuite | TestModule = test.parent; ; parent = parent.parent) {
    if (parent.errors().length > 0) return true
    if (parent.type === 'module') return false
  }
}

/** Failures that no test case shows: a module or suite that broke outside its tests, or never finished. */
function failuresOutsideTests(module: TestModule): number {
  const brokenSuites = [...module.children.allSuites()].filter((suite) => suite.errors().length > 0).length
  const unfinished = [...module.children.allTests()].filter(
    (test) => test.result().state === 'pending',
  ).length
  const brokenModule = module.errors().length > 0 || module.state() === 'pending' ? 1 : 0
  return brokenSuites + unfinished + brokenModule
}

export function countingReporter(file: string): Reporter {
  return {
    onTestRunEnd(modules, unhandledErrors) {
      const tests = modules.flatMap((module) => [...module.children.allTests()])
      const inState = (state: string) => tests.filter((test) => test.result().state === state)
      const outside = modules.reduce(
        (sum, module) => sum + failuresOutsideTests(module),
        unhandledErrors.length,
      )
      const counts: Counts = {
        passed: inState('passed').length,
        failed: inState('failed').length + outside,
        skipped: inState('skipped').map(skippedFrom),
      }
      writeFileSync(file, JSON.stringify(counts))
    },
  }
}
