// `npm run build`: compiles the packages into packages/*/dist, as they are published. Steps:
//   1. remove every dist/, so that no file outlives its source;
//   2. `tsc -b` in the order of the project references;
//   3. point the declarations' relative imports at .js (the compiler rewrites them in the code only);
//   4. copy what the compiler does not emit (SQL, data, pages) to the same place under dist/;
//   5. refuse a result in which something still points at a .ts file.
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const compiled = ['contract', 'sdk', 'server', 'cli']
const packages = [...compiled, 'ui']
/** `from './x.ts'`, `import './x.ts'` and `import('./x.ts')`, with the part before the ending in $1. */
const tsSpecifier = /((?:\bfrom|\bimport)\s*\(?\s*['"]\.{1,2}\/[^'"]*)\.ts(?=['"])/g

function outputs(name: string, pattern: string): string[] {
  return globSync(pattern, { cwd: join('packages', name, 'dist') }).map((file) =>
    join('packages', name, 'dist', file),
  )
}

function compile(): void {
  const projects = compiled.map((name) => join('packages', name))
  const { status } = spawnSync('tsc', ['-b', ...projects], { stdio: 'inherit' })
  if (status !== 0) throw new Error('tsc -b failed: the messages above name the places')
}

function rewriteDeclarations(name: string): void {
  for (const file of outputs(name, '**/*.d.ts')) {
    writeFileSync(file, readFileSync(file, 'utf8').replace(tsSpecifier, '$1.js'))
  }
}

function copyAssets(name: string): number {
  const source = join('packages', name, 'src')
  const assets = globSync('**/*.*', { cwd: source }).filter((file) => !/\.tsx?$/.test(file))
  const absent = assets.filter((file) => !existsSync(join('packages', name, 'dist', file)))
  for (const file of absent) {
    const target = join('packages', name, 'dist', file)
    mkdirSync(dirname(target), { recursive: true })
    copyFileSync(join(source, file), target)
  }
  return absent.length
}

function refuseTsSpecifiers(name: string): void {
  const wrong = outputs(name, '**/*.{js,d.ts}').filter(
    (file) => readFileSync(file, 'utf8').search(tsSpecifier) >= 0,
  )
  if (wrong.length > 0) throw new Error(`these files still import a .ts file: ${wrong.join(', ')}`)
}

for (const name of packages) rmSync(join('packages', name, 'dist'), { recursive: true, force: true })
compile()
for (const name of packages) {
  rewriteDeclarations(name)
  const assetCount = copyAssets(name)
  refuseTsSpecifiers(name)
  console.log(`packages/${name}/dist: ${outputs(name, '**/*.js').length} modules, ${assetCount} other files`)
}
