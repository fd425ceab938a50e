// Runs in a workspace before `npm pack` or `npm publish`: brings the licence into the package, and refuses to
// pack what was not built. Plain JavaScript, because npm may run it under any Node version.
import { copyFileSync, existsSync } from 'node:fs'

if (!existsSync('dist')) {
  process.stderr.write(
    'There is no dist/ to pack: run `npm run build` in the root of the repository first.\n',
  )
  process.exit(1)
}
copyFileSync(new URL('../LICENSE', import.meta.url), 'LICENSE')
