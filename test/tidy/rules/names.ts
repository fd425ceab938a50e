// Names of files: kebab-case for code and its data, NNNN_name.sql for migrations, so that a file is found by
// guessing.
import { type Rule, violation } from '../lib/source-file.ts'

const held = /^(?:packages\/[^/]+\/(?:src|bin)|test|scripts|examples)\//
const kebab = /^[a-z0-9]+(?:-[a-z0-9]+)*(?:\.(?:test|generated|config))*\.[a-z0-9]+$/
const migration = /^\d{4}_[a-z0-9]+(?:_[a-z0-9]+)*\.sql$/
/** Names that tools prescribe. */
const prescribed = new Set(['README.md', 'Dockerfile'])

export const names: Rule = {
  name: 'kebab-case file names, NNNN_name.sql migrations',
  check: (files) =>
    files
      .filter((file) => held.test(file.path))
      .flatMap((file) => {
        const base = file.path.split('/').at(-1) ?? ''
        const inMigrations = file.path.includes('/migrations/') && base.endsWith('.sql')
        const fits = inMigrations ? migration.test(base) : kebab.test(base) || prescribed.has(base)
        if (fits) return []
        return [violation(file, 0, `rename it: ${inMigrations ? 'NNNN_name.sql' : 'kebab-case'} is the rule`)]
      }),
}
