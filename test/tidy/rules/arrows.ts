// The direction of dependencies, held against the table in lib/layers.ts: no import against an arrow, none
// between outer siblings, none into another package's files, and no foreign package where a layer has to stay
// pure.
import { posix } from 'node:path'
import {
  type Layer,
  layerOf,
  layerOfPackage,
  mayImport,
  mayImportLazily,
  mayUsePackages,
  pureLayers,
  pureNodeModules,
} from '../lib/layers.ts'
import type { Rule, SourceFile } from '../lib/source-file.ts'
import { violation } from '../lib/source-file.ts'
import { type Import, importsOf } from '../lib/syntax.ts'

const packageFolder = (path: string) => path.split('/').slice(0, 2).join('/')

function wrongLayer(from: Layer, to: Layer | 'unknown', item: Import): string | undefined {
  if (to === from || (to !== 'unknown' && mayImport[from].includes(to))) return undefined
  const lazy = to !== 'unknown' && mayImportLazily[from]?.includes(to) === true
  if (lazy && item.kind !== 'value') return undefined
  const fix = lazy
    ? 'only by `await import()` or `import type`'
    : `it may import ${mayImport[from].join(', ') || 'nothing'}`
  return `${from} imports ${to} (${item.specifier}); ${fix}`
}

function wrongOutside(from: Layer, item: Import): string | undefined {
  if (item.specifier.startsWith('node:')) {
    const wrong = pureLayers.includes(from) && !pureNodeModules.includes(item.specifier)
    return wrong ? `${from} is pure and imports ${item.specifier}` : undefined
  }
  const allowed = mayUsePackages[from]
  if (allowed === undefined || allowed.includes(item.specifier)) return undefined
  return `${from} imports the package ${item.specifier}; it may use ${allowed.join(', ') || 'none'}`
}

function wrongImport(file: SourceFile, from: Layer, item: Import): string | undefined {
  if (item.specifier.startsWith('.')) {
    const target = posix.join(posix.dirname(file.path), item.specifier)
    const stays = packageFolder(target) === packageFolder(file.path)
    if (!stays) return `${item.specifier} leaves the package; import the other package by its name`
    return wrongLayer(from, layerOf(target) ?? 'unknown', item)
  }
  const own = layerOfPackage(item.specifier)
  return own === undefined ? wrongOutside(from, item) : wrongLayer(from, own, item)
}

export const arrows: Rule = {
  name: 'dependencies point inwards (the layer table of ARCHITECTURE.md)',
  check: (files) =>
    files.flatMap((file) => {
      const from = layerOf(file.path)
      if (from === undefined) return []
      if (from === 'unknown') return [violation(file, 0, 'this folder has no row in test/tidy/lib/layers.ts')]
      return importsOf(file).flatMap((item) => {
        const message = wrongImport(file, from, item)
        return message === undefined ? [] : [violation(file, item.offset, message)]
      })
    }),
}
