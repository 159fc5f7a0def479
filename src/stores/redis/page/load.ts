import type { Needs } from '../../page/needs.js'
import type { Page } from '../../page/page.js'
import type { KnownKinds } from './known-kinds.js'
import { books } from './load-books.js'
import { sheets } from './load-sheets.js'
import { windows } from './load-windows.js'
import type { Question } from './question.js'

/** What has to be asked for all that a try has missed. */
export function questionsFor(page: Page, needs: Needs, known: KnownKinds): Question[] {
  const questions: Question[] = []
  for (const [book, keys] of needs.keys)
    questions.push(...(books[book]?.(page, [...keys], known) ?? unknown(book)))
  for (const need of needs.windows.values())
    questions.push(windows[need.shelf]?.(page, need) ?? unknown(need.shelf))
  for (const sheet of needs.sheets) questions.push(...(sheets[sheet]?.(page, known) ?? unknown(sheet)))
  if (needs.positions > 0) questions.push(positions(page, needs.positions))
  return questions
}

function unknown(name: string): never {
  throw new Error(`nothing is known of ${name}`)
}

function positions(page: Page, count: number): Question {
  return {
    name: 'positions',
    gives: true,
    values: [count],
    take(last: number) {
      for (let i = last - count + 1; i <= last; i++) page.positions.push(i)
    },
  }
}
