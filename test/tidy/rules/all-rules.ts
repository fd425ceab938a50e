// Every tidy rule, in the order in which they are reported. A new rule is a file in this folder, a line here,
// and samples in rules.test.ts that prove that it can fail.
import type { Rule } from '../lib/source-file.ts'
import { arrows } from './arrows.ts'
import { clockAndChance } from './clock-and-chance.ts'
import { consoleRule } from './console.ts'
import { cycles } from './cycles.ts'
import { dependencies } from './dependencies.ts'
import { docLinks } from './doc-links.ts'
import { exportsRule } from './exports.ts'
import { headerComment } from './header-comment.ts'
import { lengths } from './lengths.ts'
import { manifests } from './manifests.ts'
import { names } from './names.ts'
import { oneWayOut } from './one-way-out.ts'
import { sqlPlace } from './sql-place.ts'
import { testsRun } from './tests-run.ts'
import { words } from './words.ts'

export const allRules: readonly Rule[] = [
  arrows,
  cycles,
  sqlPlace,
  clockAndChance,
  oneWayOut,
  consoleRule,
  exportsRule,
  headerComment,
  lengths,
  names,
  manifests,
  dependencies,
  words,
  docLinks,
  testsRun,
]
