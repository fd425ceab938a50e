// How vitest runs the tests: one project for each row of test/support/kinds.ts. Workspaces resolve to their
// sources through the `source` export condition, so no test ever runs against a stale build.
import { defineConfig } from 'vitest/config'
import { countingReporter } from './scripts/lib/counting-reporter.ts'
import { testKinds } from './test/support/kinds.ts'

// Without `import`: vitest hands these to Node for every worker, where it would make `require` load ESM
// builds.
const conditions = ['source', 'node']
const countsFile = process.env['TEST_COUNTS_FILE']

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: ['source'] } },
  // The environment that global setup files are loaded in; it inherits neither of the two above.
  environments: { __vitest__: { resolve: { conditions, externalConditions: ['source'] } } },
  test: {
    passWithNoTests: true,
    pool: 'forks',
    reporters: countsFile === undefined ? ['default'] : ['default', countingReporter(countsFile)],
    projects: testKinds.map((kind, index) => ({
      extends: true,
      test: {
        name: kind.name,
        include: [`test/${kind.name}/**/*.test.ts`],
        globalSetup: kind.postgres ? ['test/support/global-postgres.ts'] : [],
        maxWorkers: kind.workers,
        fileParallelism: kind.workers > 1,
        testTimeout: kind.timeoutMs,
        hookTimeout: kind.timeoutMs,
        sequence: { groupOrder: index },
      },
    })),
  },
})
