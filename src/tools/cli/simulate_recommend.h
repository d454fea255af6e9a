/* Recommended limits, for people, for programs and as a picture. */
#ifndef WEIR_CLI_SIMULATE_RECOMMEND_H
#define WEIR_CLI_SIMULATE_RECOMMEND_H

#include <stdio.h>

#include "options.h"
#include "simulate/recommend.h"
#include "simulate/simulation.h"

/* How many rules can be asked about at once: of each the report has up to three. */
enum { WEIR_CLI_RECOMMENDED_MOST = WEIR_SIMULATION_RULES_MOST / 3 };

typedef struct weir_cli_found {
  weir_recommendation found;
  int64_t by_keys; /* what the same share of keys gives, where it rests on one key; 0: not known */
} weir_cli_found;

typedef struct weir_cli_recommended {
  const weir_goal *goal;
  size_t count;
  const char *rules[WEIR_CLI_RECOMMENDED_MOST]; /* as given */
  weir_cli_found found[WEIR_CLI_RECOMMENDED_MOST];
  /* What the report is about: recommended, one less, as given. */
  size_t text_count;
  char texts[WEIR_SIMULATION_RULES_MOST][WEIR_RECOMMENDED_TEXT_BYTES];
} weir_cli_recommended;

/* "0.1%", "keys:0.1%", "key:NAME". False after one line on stderr. */
bool weir_cli_goal_read(const char *text, weir_goal *goal);

/* Prints the peaks and the recommendation for each rule as they are found. The exit status, after
 * one line on stderr when it is not 0. */
int weir_cli_recommend(const weir_cli_options *options, const char *const *rules, size_t rule_count,
                       weir_record *record, const weir_goal *goal,
                       weir_cli_recommended *recommended);

/* Draws how many keys have which peak, and the limits in it, into options->plot. */
int weir_cli_recommend_plot(const weir_cli_options *options,
                            const weir_cli_recommended *recommended, weir_record *record);

#endif
